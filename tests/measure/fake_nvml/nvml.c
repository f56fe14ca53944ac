/* A stand-in for libnvidia-ml.so.1 that plays a script: enough of NVML's C interface for the real nvidia-ml-py.
 *
 * FAKE_NVML_DIR holds one file per GPU, gpu0, gpu1 ..., of lines "key value" (see struct gpu), optionally "clock"
 * (the time in seconds; without it time is the machine's own, from the first call) and "limit0" ... (mW, rewritten
 * by SetPowerManagementLimit). All are read anew at every call, so that a test can change the world while it runs.
 * The trace is "trace t0 w0 t1 w1 ...": power is linear between points and constant after the last; energy is its
 * integral, seen through a counter that is updated every "period" seconds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, TOO_SMALL = 7, UNKNOWN = 999, LOST = 15 };
#define MAX_GPUS 8
#define MAX_POINTS 64
#define EXPORT __attribute__((visibility("default")))

struct gpu {
    char uuid[96], name[96], mig[4][96];
    int counter, power, instant, arch, migs, c2c, settable; /* which queries are answered */
    unsigned pids[16], npids, temperature, clock_mhz;
    double period, freeze, lost, hiccup, scale, offset_mj, wrap_mj, min_mw, max_mw;
    double t[MAX_POINTS], w[MAX_POINTS];
    int points;
};
struct handle { int gpu, slice; }; /* slice -1: the whole GPU */
static struct handle handles[MAX_GPUS][5];

static FILE *script(const char *name, int index, const char *mode) {
    char path[512];
    const char *dir = getenv("FAKE_NVML_DIR");
    if (index < 0) snprintf(path, sizeof path, "%s/%s", dir ? dir : ".", name);
    else snprintf(path, sizeof path, "%s/%s%d", dir ? dir : ".", name, index);
    return fopen(path, mode);
}

static double now(void) {
    static double first = -1;
    double v = 0;
    FILE *h = script("clock", -1, "r");
    if (h) { if (fscanf(h, "%lf", &v) != 1) v = 0; fclose(h); return v; }
    struct timespec s;
    clock_gettime(CLOCK_MONOTONIC, &s);
    v = s.tv_sec + 1e-9 * s.tv_nsec;
    if (first < 0) first = v;
    return v - first;
}

static int load(int index, struct gpu *g) {
    FILE *h = script("gpu", index, "r");
    char key[32];
    if (!h) return 0;
    memset(g, 0, sizeof *g);
    g->counter = g->power = g->instant = g->settable = 1;
    g->arch = 9; g->temperature = 40; g->clock_mhz = 1400;
    g->period = 0.02; g->freeze = g->lost = g->hiccup = 1e30; g->scale = 1; g->min_mw = 100e3; g->max_mw = 400e3;
    while (fscanf(h, "%31s", key) == 1) {
        if (!strcmp(key, "uuid")) { if (fscanf(h, "%95s", g->uuid) != 1) break; }
        else if (!strcmp(key, "name")) { if (fscanf(h, " %95[^\n]", g->name) != 1) break; }
        else if (!strcmp(key, "mig")) { if (fscanf(h, "%95s", g->mig[g->migs++]) != 1) break; }
        else {
            double v;
            if (fscanf(h, "%lf", &v) != 1) break;
            if (!strcmp(key, "counter")) g->counter = v;
            else if (!strcmp(key, "power")) g->power = v;
            else if (!strcmp(key, "instant")) g->instant = v;
            else if (!strcmp(key, "arch")) g->arch = v;
            else if (!strcmp(key, "c2c")) g->c2c = v;
            else if (!strcmp(key, "settable")) g->settable = v;
            else if (!strcmp(key, "pid")) g->pids[g->npids++] = v;
            else if (!strcmp(key, "period")) g->period = v;
            else if (!strcmp(key, "freeze")) g->freeze = v;
            else if (!strcmp(key, "lost")) g->lost = v;
            else if (!strcmp(key, "hiccup")) g->hiccup = v;
            else if (!strcmp(key, "scale")) g->scale = v;
            else if (!strcmp(key, "offset_mj")) g->offset_mj = v;
            else if (!strcmp(key, "wrap_mj")) g->wrap_mj = v;
            else if (!strcmp(key, "trace")) {
                do { g->t[g->points] = v; if (fscanf(h, "%lf", &g->w[g->points]) != 1) break; g->points++; }
                while (g->points < MAX_POINTS && fscanf(h, "%lf", &v) == 1);
                clearerr(h);
            }
        }
    }
    fclose(h);
    return 1;
}

static double power_w(const struct gpu *g, double t) {
    for (int i = g->points - 1; i >= 0; i--)
        if (t >= g->t[i]) {
            if (i == g->points - 1 || g->t[i + 1] == g->t[i]) return g->w[i];
            return g->w[i] + (g->w[i + 1] - g->w[i]) * (t - g->t[i]) / (g->t[i + 1] - g->t[i]);
        }
    return 0;
}

static double energy_j(const struct gpu *g, double t) {
    double sum = 0;
    for (int i = 0; i < g->points && g->t[i] < t; i++) {
        /* Power at the end of this piece, approached from the left: the next one may start with a step. */
        int open_ended = i == g->points - 1;
        double end = open_ended || g->t[i + 1] > t ? t : g->t[i + 1], last = g->w[i];
        if (!open_ended && g->t[i + 1] > g->t[i])
            last += (g->w[i + 1] - g->w[i]) * (end - g->t[i]) / (g->t[i + 1] - g->t[i]);
        sum += (end - g->t[i]) * (g->w[i] + last) / 2;
    }
    return sum;
}

static int open_gpu(void *device, struct gpu *g) {
    if (!load(((struct handle *)device)->gpu, g)) return NOT_FOUND;
    if (now() >= g->lost) return LOST;
    return now() >= g->hiccup && now() < g->hiccup + 0.2 ? UNKNOWN : OK;
}
#define OPEN(device) struct gpu g; int bad = open_gpu(device, &g); if (bad) return bad

EXPORT int nvmlInit_v2(void) { return getenv("FAKE_NVML_BROKEN") ? 9 : OK; } /* driver not loaded */
EXPORT int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
EXPORT int nvmlShutdown(void) { return OK; }
EXPORT const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "an error of the fake"; }
EXPORT int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "555.42.01"); return OK; }
EXPORT int nvmlSystemGetNVMLVersion(char *s, unsigned n) { snprintf(s, n, "12.555.42.01"); return OK; }
EXPORT int nvmlDeviceGetCount_v2(unsigned *n) { struct gpu g; for (*n = 0; load(*n, &g); ++*n); return OK; }
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) {
    struct gpu g;
    if (i >= MAX_GPUS || !load(i, &g)) return INVALID;
    handles[i][0] = (struct handle){i, -1};
    *device = &handles[i][0];
    return OK;
}
EXPORT int nvmlDeviceGetUUID(void *device, char *s, unsigned n) {
    struct gpu g;
    struct handle *h = device;
    if (!load(h->gpu, &g)) return NOT_FOUND;
    snprintf(s, n, "%s", h->slice < 0 ? g.uuid : g.mig[h->slice]);
    return OK;
}
EXPORT int nvmlDeviceGetName(void *device, char *s, unsigned n) { OPEN(device); snprintf(s, n, "%s", g.name); return OK; }
EXPORT int nvmlDeviceGetArchitecture(void *device, unsigned *a) { OPEN(device); *a = g.arch; return OK; }
EXPORT int nvmlDeviceGetMigMode(void *device, unsigned *on, unsigned *next) { OPEN(device); *on = *next = g.migs > 0; return OK; }
EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *n) { OPEN(device); *n = 4; return OK; }
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned i, void **slice) {
    OPEN(device);
    int gpu = ((struct handle *)device)->gpu;
    if ((int)i >= g.migs) return NOT_FOUND;
    handles[gpu][i + 1] = (struct handle){gpu, i};
    *slice = &handles[gpu][i + 1];
    return OK;
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj) {
    OPEN(device);
    if (!g.counter) return NOT_SUPPORTED;
    double t = floor(now() / g.period + 1e-9) * g.period;
    double counted = g.offset_mj + 1e3 * g.scale * energy_j(&g, t < g.freeze ? t : g.freeze);
    if (g.wrap_mj > 0) counted = fmod(counted, g.wrap_mj);
    *mj = (unsigned long long)(counted + 1e-6);
    return OK;
}
EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) {
    OPEN(device);
    if (!g.power) return NOT_SUPPORTED;
    *mw = (unsigned)(1e3 * power_w(&g, now()) + 0.5);
    return OK;
}
struct field { unsigned id, scope; long long stamp, latency; unsigned type; int result; union { unsigned u; unsigned long long l; } value; };
EXPORT int nvmlDeviceGetFieldValues(void *device, int n, struct field *f) {
    OPEN(device);
    for (int i = 0; i < n; i++) {
        f[i].result = g.instant && (f[i].id == 185 || f[i].id == 186) ? OK : NOT_SUPPORTED;
        f[i].type = 1;
        f[i].value.u = (unsigned)(1e3 * power_w(&g, now()) + 0.5);
    }
    return OK;
}
struct process { unsigned pid; unsigned long long memory; unsigned instance, compute; };
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, struct process *p) {
    OPEN(device);
    if (*n < g.npids) { *n = g.npids; return TOO_SMALL; }
    for (unsigned i = 0; i < g.npids; i++) p[i] = (struct process){g.pids[i], 1 << 20, ~0u, ~0u};
    *n = g.npids;
    return OK;
}
EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *c) { (void)sensor; OPEN(device); *c = g.temperature; return OK; }
EXPORT int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz) { (void)type; OPEN(device); *mhz = g.clock_mhz; return OK; }
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits) { OPEN(device); *bits = 0x4; return OK; }
EXPORT int nvmlDeviceGetC2cModeInfoV(void *device, unsigned *on) { OPEN(device); if (!g.c2c) return NOT_SUPPORTED; *on = 1; return OK; }
EXPORT int nvmlDeviceGetPowerManagementLimit(void *device, unsigned *mw) {
    OPEN(device);
    FILE *h = script("limit", ((struct handle *)device)->gpu, "r");
    if (!h) return NOT_SUPPORTED;
    int got = fscanf(h, "%u", mw);
    fclose(h);
    return got == 1 ? OK : UNKNOWN;
}
EXPORT int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw) { return nvmlDeviceGetPowerManagementLimit(device, mw); }
EXPORT int nvmlDeviceGetPowerManagementDefaultLimit(void *device, unsigned *mw) { OPEN(device); *mw = (unsigned)g.max_mw; return OK; }
EXPORT int nvmlDeviceGetPowerManagementLimitConstraints(void *device, unsigned *min, unsigned *max) {
    OPEN(device); *min = (unsigned)g.min_mw; *max = (unsigned)g.max_mw; return OK;
}
EXPORT int nvmlDeviceSetPowerManagementLimit(void *device, unsigned mw) {
    OPEN(device);
    if (!g.settable) return NO_PERMISSION;
    FILE *h = script("limit", ((struct handle *)device)->gpu, "w");
    if (!h) return UNKNOWN;
    fprintf(h, "%u\n", mw);
    fclose(h);
    return OK;
}
EXPORT int nvmlDeviceGetPersistenceMode(void *device, unsigned *on) { OPEN(device); *on = 1; return OK; }
