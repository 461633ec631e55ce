/*
 * Copyright (c) 2026, modelfleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/*
 * The defaults are what a real machine with eight RTX PRO 6000 Blackwell Server Edition reported (driver 595.58.03);
 * the ids are made up. README.md describes the state file.
 */

#include "state.h"

#include <nvml.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1ULL << 20)
#define UNKNOWN ((unsigned long long)NVML_VALUE_NOT_AVAILABLE)
#define DEFAULT_STATE_FILE "/etc/modelfleet-lab/nvml.state"

/* As on the real machine: minor numbers don't follow the index, and a neighbour pair shares a PCIe switch. */
static const struct {
    unsigned bus, minor_number, reserved_mib, milliwatts, celsius;
} slots[MAX_GPUS] = {
    {0x01, 1, 636, 39120, 31}, {0x11, 0, 636, 38450, 30}, {0x61, 3, 640, 37980, 29}, {0x71, 2, 636, 40210, 32},
    {0x81, 5, 636, 38870, 31}, {0x91, 4, 638, 39540, 30}, {0xE1, 7, 636, 36910, 28}, {0xF1, 6, 640, 39330, 31},
};

/* No two cards of a fleet answer everything: code that asks must cope with each kind of "no value". */
static const struct {
    int gpu;
    struct error error;
} quirks[] = {
    {2, {"nvmlDeviceGetSerial", NVML_ERROR_NOT_SUPPORTED}},
    {5, {"nvmlDeviceGetUtilizationRates", NVML_ERROR_NOT_SUPPORTED}},
    {6, {"nvmlDeviceGetPersistenceMode", NVML_ERROR_DEPRECATED}},
};

static void set_defaults(struct state *state)
{
    memset(state, 0, sizeof *state);
    strcpy(state->driver, "595.58.03");
    strcpy(state->nvml, "13.595.58.03");
    state->cuda = 13020;
    state->count = 8;
    for (int i = 0; i < MAX_GPUS; i++) {
        struct gpu *gpu = &state->gpus[i];
        strcpy(gpu->name, "NVIDIA RTX PRO 6000 Blackwell Server Edition");
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-6d0de1f1-ee70-4000-8000-%012d", i);
        snprintf(gpu->serial, sizeof gpu->serial, "17930250%05d", i);
        snprintf(gpu->pci, sizeof gpu->pci, "00000000:%02X:00.0", slots[i].bus);
        gpu->memory_total = 97887 * MIB;
        gpu->memory_reserved = slots[i].reserved_mib * MIB;
        gpu->cc_major = 12;
        gpu->minor_number = slots[i].minor_number;
        gpu->numa_node = i / 4;
        gpu->ecc = gpu->persistence = 1;
        gpu->temperature = slots[i].celsius;
        gpu->power = slots[i].milliwatts;
        gpu->power_limit = 600000;
        gpu->pcie_generation_max = 5;
        gpu->pcie_width = gpu->pcie_width_max = 16;
    }
    for (size_t i = 0; i < sizeof quirks / sizeof *quirks; i++) {
        struct gpu *gpu = &state->gpus[quirks[i].gpu];
        gpu->errors[gpu->error_count++] = quirks[i].error;
    }
}

enum kind { TEXT, UNSIGNED, SIGNED, BYTES };

struct field {
    const char *key;
    enum kind kind;
    size_t offset, size;
};

#define FIELD(type, key, kind, member) {key, kind, offsetof(struct type, member), sizeof(((struct type *)0)->member)}

static const struct field global_fields[] = {
    FIELD(state, "driver", TEXT, driver),
    FIELD(state, "nvml", TEXT, nvml),
    FIELD(state, "cuda", SIGNED, cuda),
    FIELD(state, "count", SIGNED, count),
    FIELD(state, "init_error", SIGNED, init_error),
    {0},
};

static const struct field gpu_fields[] = {
    FIELD(gpu, "name", TEXT, name),
    FIELD(gpu, "uuid", TEXT, uuid),
    FIELD(gpu, "serial", TEXT, serial),
    FIELD(gpu, "pci", TEXT, pci),
    FIELD(gpu, "memory_total", BYTES, memory_total),
    FIELD(gpu, "memory_reserved", BYTES, memory_reserved),
    FIELD(gpu, "memory_held", BYTES, memory_held),
    FIELD(gpu, "ecc_uncorrected", BYTES, ecc_uncorrected),
    FIELD(gpu, "minor_number", UNSIGNED, minor_number),
    FIELD(gpu, "numa_node", UNSIGNED, numa_node),
    FIELD(gpu, "ecc", UNSIGNED, ecc),
    FIELD(gpu, "mig", UNSIGNED, mig),
    FIELD(gpu, "persistence", UNSIGNED, persistence),
    FIELD(gpu, "temperature", UNSIGNED, temperature),
    FIELD(gpu, "utilization", UNSIGNED, utilization),
    FIELD(gpu, "power", UNSIGNED, power),
    FIELD(gpu, "power_limit", UNSIGNED, power_limit),
    FIELD(gpu, "pcie_generation", UNSIGNED, pcie_generation),
    FIELD(gpu, "pcie_generation_max", UNSIGNED, pcie_generation_max),
    FIELD(gpu, "pcie_width", UNSIGNED, pcie_width),
    FIELD(gpu, "pcie_width_max", UNSIGNED, pcie_width_max),
    FIELD(gpu, "rows_pending", UNSIGNED, rows_pending),
    {0},
};

static bool parse_number(const char *text, unsigned long long *number)
{
    char *end;

    *number = strtoull(text, &end, 0);
    if (end == text || *text == '-')
        return false;
    for (const char *unit = "KMGT"; *unit != '\0'; unit++) {
        if (*end == *unit) {
            *number <<= 10 * (1 + (unit - "KMGT"));
            end++;
            break;
        }
    }
    return *end == '\0';
}

static bool set_field(const struct field *fields, void *object, const char *key, const char *value)
{
    unsigned long long number = 0;

    for (const struct field *field = fields; field->key != NULL; field++) {
        char *target = (char *)object + field->offset;
        if (strcmp(field->key, key) != 0)
            continue;
        if (field->kind == TEXT)
            return snprintf(target, field->size, "%s", value) < (int)field->size;
        if (!parse_number(value, &number))
            return false;
        if (field->kind == BYTES)
            *(unsigned long long *)target = number;
        else
            *(unsigned *)target = (unsigned)number; /* SIGNED ones are small and never negative */
        return true;
    }
    return false;
}

static bool add_process(struct gpu *gpu, const char *value)
{
    char bytes[32], kind[16] = "";
    unsigned pid;
    struct process process = {0};

    if (gpu->process_count == MAX_PROCESSES || sscanf(value, "%u %31s %15s", &pid, bytes, kind) < 2)
        return false;
    process.pid = pid;
    process.graphics = strcmp(kind, "graphics") == 0;
    if (strcmp(bytes, "unknown") == 0)
        process.bytes = UNKNOWN;
    else if (!parse_number(bytes, &process.bytes))
        return false;
    gpu->processes[gpu->process_count++] = process;
    return true;
}

/* `error FUNCTION CODE`; code 0 takes an earlier one back. */
static bool add_error(struct gpu *gpu, const char *value)
{
    struct error error = {0};

    if (gpu->error_count == MAX_ERRORS || sscanf(value, "%63s %d", error.function, &error.code) != 2)
        return false;
    gpu->errors[gpu->error_count++] = error;
    return true;
}

static bool set_gpu(struct gpu *gpu, const char *key, const char *value)
{
    if (strcmp(key, "process") == 0)
        return add_process(gpu, value);
    if (strcmp(key, "error") == 0)
        return add_error(gpu, value);
    if (strcmp(key, "compute_capability") == 0)
        return sscanf(value, "%u.%u", &gpu->cc_major, &gpu->cc_minor) == 2;
    return set_field(gpu_fields, gpu, key, value);
}

/* `KEY VALUE` for the machine, `gpu INDEX|* KEY VALUE` for cards. */
static bool apply_line(struct state *state, const char *line)
{
    char word[64], which[16];
    unsigned long long first = 0, last = MAX_GPUS - 1;
    int at = 0;
    bool good = true;

    if (sscanf(line, " %63s %n", word, &at) != 1)
        return true; /* empty, or nothing but a comment */
    if (strcmp(word, "gpu") != 0)
        return line[at] != '\0' && set_field(global_fields, state, word, line + at);
    if (sscanf(line, " gpu %15s %63s %n", which, word, &at) != 2 || line[at] == '\0')
        return false;
    if (strcmp(which, "*") != 0) {
        if (!parse_number(which, &first) || first >= MAX_GPUS)
            return false;
        last = first;
    }
    for (unsigned long long i = first; i <= last; i++)
        good &= set_gpu(&state->gpus[i], word, line + at);
    return good;
}

void state_load(struct state *state, bool complain)
{
    const char *path = getenv("MODELFLEET_NVML_STATE");
    char line[512];
    int number = 0;
    FILE *file;

    set_defaults(state);
    if (path == NULL || *path == '\0')
        path = DEFAULT_STATE_FILE;
    file = fopen(path, "r");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        number++;
        line[strcspn(line, "#")] = '\0';
        for (size_t length = strlen(line); length > 0 && strchr(" \t\r\n", line[length - 1]) != NULL; length--)
            line[length - 1] = '\0';
        if (!apply_line(state, line) && complain)
            fprintf(stderr, "%s:%d: not understood: %s\n", path, number, line);
    }
    fclose(file);
    if (state->count < 0 || state->count > MAX_GPUS)
        state->count = MAX_GPUS;
}

unsigned long long gpu_memory_used(const struct gpu *gpu)
{
    unsigned long long used = gpu->memory_held, most = gpu->memory_total - gpu->memory_reserved;

    for (int i = 0; i < gpu->process_count; i++)
        if (gpu->processes[i].bytes != UNKNOWN)
            used += gpu->processes[i].bytes;
    return used < most ? used : most;
}
