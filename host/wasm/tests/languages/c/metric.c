// A metric in C that uses the standard library's streams and clock: the mean latency.
//
//     wit-bindgen c plugin-api/wit --world metric-plugin
//     clang --target=wasm32-wasi -Os -s -mexec-model=reactor metric.c metric_plugin.c metric_plugin_component_type.o -o core.wasm
//     jco new core.wasm --wasi-reactor -o metric.wasm
//
// `metric.wasm` beside it is what Debian's clang 14 and wasi-libc made of it, so that the test needs neither.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "metric_plugin.h"

static metric_plugin_string_t text(const char *from) {
  metric_plugin_string_t string;
  metric_plugin_string_dup(&string, from);
  return string;
}

void exports_tare_plugin_metric_describe(exports_tare_plugin_metric_description_t *ret) {
  *ret = (exports_tare_plugin_metric_description_t){
      text("c-mean"), text("1.0.0"), text("The mean latency."), text("MIT"), {NULL, 0}};
}

void exports_tare_plugin_metric_columns(metric_plugin_list_string_t *ret) {
  ret->ptr = malloc(sizeof *ret->ptr);
  ret->ptr[0] = text("latency");
  ret->len = 1;
}

bool exports_tare_plugin_metric_compute(
    exports_tare_plugin_metric_case_description_t *case_,
    exports_tare_plugin_metric_list_column_t *columns, metric_plugin_string_t *options,
    exports_tare_plugin_metric_list_measurement_t *ret, metric_plugin_string_t *err) {
  (void)options, (void)err;
  fprintf(stderr, "case %.*s at %lld\n", (int)case_->id.len, (char *)case_->id.ptr, (long long)time(NULL));
  tare_plugin_types_measurement_t *one = calloc(1, sizeof *one);
  one->metric = text("c-mean.latency");
  one->unit = text("ns");
  one->direction = text("lower");
  one->measure.tag = TARE_PLUGIN_TYPES_MEASURE_GAP;
  for (size_t i = 0; i < columns->len; i++) {
    tare_plugin_types_column_t *column = &columns->ptr[i];
    if (column->data.tag != TARE_PLUGIN_TYPES_COLUMN_DATA_UNSIGNED || column->data.val.unsigned_.len == 0) continue;
    double sum = 0;
    for (size_t j = 0; j < column->data.val.unsigned_.len; j++) sum += column->data.val.unsigned_.ptr[j];
    one->measure.tag = TARE_PLUGIN_TYPES_MEASURE_VALUE;
    one->measure.val.value = sum / column->data.val.unsigned_.len;
  }
  if (one->measure.tag == TARE_PLUGIN_TYPES_MEASURE_GAP) {
    one->measure.val.gap.kind = text("not-measured");
    one->measure.val.gap.reason = text("the case has no latencies");
  }
  ret->ptr = one;
  ret->len = 1;
  return true;
}
