/*
 * Copyright (c) 2026, modelfleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* What the emulated GPUs look like at this moment. */
#ifndef MODELFLEET_LAB_STATE_H
#define MODELFLEET_LAB_STATE_H

#include <stdbool.h>

enum { MAX_GPUS = 16, MAX_PROCESSES = 64, MAX_ERRORS = 32 };

struct process {
    unsigned pid;
    unsigned long long bytes;
    bool graphics;
};

struct error {
    char function[64]; /* or "*" for every function */
    int code;
};

struct gpu {
    char name[96], uuid[96], serial[32], pci[32];
    unsigned long long memory_total, memory_reserved;
    unsigned long long memory_held; /* in use, but by no process that can be seen */
    unsigned long long ecc_uncorrected;
    unsigned cc_major, cc_minor, minor_number, numa_node, ecc, mig, persistence, temperature, utilization;
    unsigned power, power_limit; /* milliwatts */
    unsigned pcie_generation, pcie_generation_max; /* generation 0: as the card does it, by its load */
    unsigned pcie_width, pcie_width_max, rows_pending;
    int process_count, error_count;
    struct process processes[MAX_PROCESSES];
    struct error errors[MAX_ERRORS];
};

struct state {
    char driver[64], nvml[64];
    int cuda, count, init_error;
    struct gpu gpus[MAX_GPUS];
};

/* Fill in the defaults, then what the state file says. Lines that make no sense are left out, and complained about. */
void state_load(struct state *state, bool complain);

unsigned long long gpu_memory_used(const struct gpu *gpu);

#endif
