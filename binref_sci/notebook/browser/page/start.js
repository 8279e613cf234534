// The player without a kernel: an exported page calls `start(widget, document)`.

import { fromBase64 } from "../pure/bytes.js";
import { EmbeddedFrames } from "./embedded.js";
import { StubModel, viewOf } from "./stub.js";

/** Build the player of an exported page; gives its model. */
export async function start(widget, page) {
  const data = JSON.parse(page.getElementById("binref-data").textContent);
  const { luts, options, ...traits } = data.traits;
  const model = new StubModel(
    {
      ver: 0,
      playing: false,
      pinned: [],
      live: {},
      status: {},
      positions: [],
      ...traits,
      luts: viewOf(fromBase64(luts)),
      options: { ...options, fixed: ["colours", "live", "values", "series"] },
    },
    new EmbeddedFrames(data),
  );
  const player = await widget();
  const el = page.getElementById("binref-player");
  await player.initialize({ model });
  await player.render({ model, el });
  return model;
}
