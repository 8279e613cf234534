// How well it plays, in words.

export function telemetryWords({ demand, frames, look, playhead, telemetry }) {
  const { playing } = playhead;
  const { lod, reduce } = look;
  const { read, enc } = telemetry.kernel;
  const stats = telemetry.stats(demand);
  const hits = stats.hits === null ? "–" : `${Math.round(stats.hits * 100)} %`;
  const megabytes = (frames.cache.bytes / 1e6).toFixed(1);
  return [
    `shown    ${playing ? `${stats.fps.toFixed(1)} /s` : "–"}`,
    `gap 95 % ${playing ? `${stats.gap_p95_ms.toFixed(0)} ms` : "–"}`,
    `dropped  ${stats.dropped}`,
    `cache    ${hits} of ${megabytes} MB`,
    `trip     ${stats.rtt_ms.toFixed(0)} ms`,
    `flying   ${stats.in_flight}`,
    `read     ${Number(read).toFixed(1)} ms`,
    `encode   ${Number(enc).toFixed(1)} ms`,
    `paint    ${stats.paint_ms.toFixed(1)} ms`,
    `detail   1:${lod}${lod > 1 ? ` ${reduce}` : ""}`,
  ].join("\n");
}
