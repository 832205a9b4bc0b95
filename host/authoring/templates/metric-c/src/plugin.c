/*
 * The slowest query of a case, and how many times slower it is than the median.
 *
 * What a function returns is freed by the bindings, so each text in it is a copy. What it is given is its own to free.
 * printf works, and goes to the text that the host shows with an error.
 */
#include "metric_plugin.h"

#include <stdlib.h>
#include <string.h>

typedef exports_tare_plugin_metric_measurement_t measurement_t;
typedef exports_tare_plugin_metric_list_column_t columns_t;

static int is(metric_plugin_string_t text, const char *other) {
    return text.len == strlen(other) && memcmp(text.ptr, other, text.len) == 0;
}

void exports_tare_plugin_metric_describe(exports_tare_plugin_metric_description_t *description) {
    metric_plugin_string_dup(&description->id, "{{name}}");
    metric_plugin_string_dup(&description->version, "0.1.0");
    metric_plugin_string_dup(&description->summary,
                             "Slowest query of a case, and how many times slower it is than the median.");
    metric_plugin_string_dup(&description->license, "MIT OR Apache-2.0");
    description->options.ptr = NULL; /* It takes none, and the host refuses them. */
    description->options.len = 0;
}

void exports_tare_plugin_metric_columns(metric_plugin_list_string_t *names) {
    names->ptr = malloc(sizeof *names->ptr);
    names->len = 1;
    metric_plugin_string_dup(&names->ptr[0], "latency");
}

/* A value. `reason` says why there is none: that is a gap, never a zero. */
static measurement_t measurement(const char *name, double value, const char *unit,
                                 const char *reason) {
    measurement_t it = {0};
    metric_plugin_string_dup(&it.metric, name);
    metric_plugin_string_dup(&it.unit, unit);
    metric_plugin_string_dup(&it.direction, "lower");
    if (reason == NULL) {
        it.measure.tag = TARE_PLUGIN_TYPES_MEASURE_VALUE;
        it.measure.val.value = value;
    } else {
        it.measure.tag = TARE_PLUGIN_TYPES_MEASURE_GAP;
        metric_plugin_string_dup(&it.measure.val.gap.kind, "not-measured");
        metric_plugin_string_dup(&it.measure.val.gap.reason, reason);
    }
    return it;
}

static int compare(const void *first, const void *second) {
    uint64_t one = *(const uint64_t *)first, other = *(const uint64_t *)second;
    return (one > other) - (one < other);
}

bool exports_tare_plugin_metric_compute(exports_tare_plugin_metric_case_description_t *description,
                                        columns_t *columns, metric_plugin_string_t *options,
                                        exports_tare_plugin_metric_list_measurement_t *values,
                                        metric_plugin_string_t *error) {
    metric_plugin_list_u64_t latencies = {NULL, 0};
    for (size_t at = 0; at < columns->len; at++)
        if (is(columns->ptr[at].name, "latency") &&
            columns->ptr[at].data.tag == TARE_PLUGIN_TYPES_COLUMN_DATA_UNSIGNED)
            latencies = columns->ptr[at].data.val.unsigned_;
    const char *reason = latencies.len == 0 ? "the case has no queries" : NULL;
    double slowest = 0.0, ratio = 0.0;
    const char *no_ratio = reason;
    if (reason == NULL) {
        /* The columns are ours, so they can be sorted in place. */
        qsort(latencies.ptr, latencies.len, sizeof *latencies.ptr, compare);
        slowest = (double)latencies.ptr[latencies.len - 1];
        uint64_t median = latencies.ptr[(latencies.len + 1) / 2 - 1];
        if (median == 0)
            no_ratio = "the median is zero";
        else
            ratio = slowest / (double)median;
    }
    values->ptr = malloc(2 * sizeof *values->ptr);
    values->len = 2;
    values->ptr[0] = measurement("{{name}}.slowest", slowest, "ns", reason);
    values->ptr[1] = measurement("{{name}}.ratio", ratio, "1", no_ratio);
    (void)description;
    (void)options;
    (void)error; /* To refuse options, put a text here and return false. */
    return true;
}
