/* Waves on a square membrane with clamped edges, by leapfrog steps.

   usage: wave SIZE STEPS COURANT

   Writes into the working directory:

     wave.bin             STEPS + 1 snapshots of SIZE x SIZE doubles, nothing else
     times.bin            one double a snapshot
     height.binref.jsonl  what the two are: three lines of JSON

   The last file is optional. It lets the directory open by itself, labelled, with
   binref_sci.open_dataset, also while this program runs or after it was killed. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static FILE *create(const char *name)
{
    FILE *file = fopen(name, "wb");
    if (file == NULL)
        fail(name);
    setvbuf(file, NULL, _IONBF, 0); /* on disk before the next step begins */
    return file;
}

static void put(const void *data, size_t count, FILE *file, const char *name)
{
    if (fwrite(data, sizeof(double), count, file) != count)
        fail(name);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: wave SIZE STEPS COURANT\n");
        return 2;
    }
    const long size = atol(argv[1]), steps = atol(argv[2]);
    const double courant = atof(argv[3]);
    if (size < 3 || steps < 0 || !(courant > 0)) {
        fprintf(stderr, "wave: needs SIZE >= 3, STEPS >= 0 and COURANT > 0\n");
        return 2;
    }
    const size_t cells = (size_t)size * (size_t)size;
    double *before = calloc(cells, sizeof(double));
    double *now = calloc(cells, sizeof(double));
    double *after = calloc(cells, sizeof(double));
    if (before == NULL || now == NULL || after == NULL)
        fail("memory");

    /* A bump at rest, off the middle; the membrane has side 1 and wave speed 1. */
    const double dx = 1.0 / (double)(size - 1), dt = courant * dx;
    for (long y = 1; y < size - 1; y++)
        for (long x = 1; x < size - 1; x++) {
            const double r = hypot((double)x * dx - 0.35, (double)y * dx - 0.4) / 0.08;
            before[y * size + x] = now[y * size + x] = exp(-r * r);
        }

    FILE *data = create("wave.bin"), *times = create("times.bin");
    FILE *journal = create("height.binref.jsonl");
    fprintf(journal, "{\"binref_journal\": 1, \"name\": \"height\", \"total\": %ld,"
            " \"labels\": {\"dims\": [\"time\", \"y\", \"x\"]},"
            " \"time\": {\"buffer\": \"times.bin\", \"dtype\": \"float64\"}}\n", steps + 1);
    fprintf(journal, "{\"segment\": {\"buffer\": \"wave.bin\", \"offset\": 0,"
            " \"shape\": [%ld, %ld], \"dtype\": \"float64\"}}\n", size, size);

    for (long step = 0; step <= steps; step++) {
        const double time = (double)step * dt;
        put(now, cells, data, "wave.bin");
        put(&time, 1, times, "times.bin");
        for (long y = 1; y < size - 1; y++)
            for (long x = 1; x < size - 1; x++) {
                const long i = y * size + x;
                const double laplacian = now[i - size] + now[i + size] + now[i - 1] + now[i + 1]
                                         - 4 * now[i];
                after[i] = 2 * now[i] - before[i] + courant * courant * laplacian;
            }
        double *spare = before;
        before = now;
        now = after;
        after = spare;
    }

    fprintf(journal, "{\"end\": {\"count\": %ld}}\n", steps + 1);
    if (fclose(data) || fclose(times) || fclose(journal))
        fail("close");
    return 0;
}
