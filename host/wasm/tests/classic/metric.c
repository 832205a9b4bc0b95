// A metric as a classic module: the mean latency. It speaks the protocol of docs/reference/lines.md with nothing but the
// standard library, and on request does what it must not.
//
//     clang --target=wasm32-wasi -Os -s metric.c -o metric.wasm
//
// `metric.wasm` beside it is what Debian's clang 14 and wasi-libc made of it, so that the tests need neither.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char line[1 << 20];

static int begins(const char *prefix) { return strncmp(line, prefix, strlen(prefix)) == 0; }

static int acts(const char *act) {
  char text[64];
  snprintf(text, sizeof text, "\"act\":\"%s\"", act);
  return strstr(line, text) != NULL;
}

static void value(const char *name, double value) {
  printf("{\"metric\":\"classic.%s\",\"value\":%.17g,\"unit\":\"ns\",\"direction\":\"lower\"}\n", name, value);
}

int main(int count, char **arguments) {
  if (!fgets(line, sizeof line, stdin)) return 1;
  if (strstr(line, "\"call\":\"describe\"")) {
    printf("{\"kind\":\"metric\",\"id\":\"classic\",\"version\":\"1.0.0\",\"summary\":\"The mean latency.\","
           "\"license\":\"MIT\",\"options\":{\"act\":\"What to do.\"},\"columns\":[\"latency\"]}\n");
    return 0;
  }
  if (acts("refuse")) {
    printf("{\"error\":\"options: not on a Sunday\"}\n");
    return 0;
  }
  if (acts("exit")) {
    fprintf(stderr, "the widget is broken\n");
    return 3;
  }
  if (acts("loop"))
    for (volatile int i = 0;; i++) {
    }
  if (acts("allocate"))
    for (;;) {
      volatile char *more = malloc(1 << 20);
      if (!more) return 4;
      more[0] = 1;
    }
  if (acts("prattle")) {
    printf("hello\n");
    return 0;
  }
  if (acts("flood"))
    for (;;) puts(line);
  if (acts("machine")) {
    // All of what the machine could tell.
    struct timespec day = {86400, 0}, now;
    nanosleep(&day, NULL);
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned char bytes[8];
    FILE *file = fopen("/etc/passwd", "r");
    if (getentropy(bytes, sizeof bytes)) return 5;
    value("arguments", count);
    value("variables", getenv("PATH") ? 1 : 0);
    value("files", file ? 1 : 0);
    value("clock", now.tv_sec);
    value("random", bytes[0]);
    (void)arguments;
    return 0;
  }
  double sum = 0;
  long values = 0;
  while (fgets(line, sizeof line, stdin)) {
    const char *start = "{\"column\":\"latency\",\"values\":[";
    if (!begins(start)) continue;
    for (char *at = line + strlen(start); *at != ']'; at += *at == ',') {
      sum += strtod(at, &at);
      values++;
    }
  }
  if (values)
    value("mean", sum / values);
  else
    printf("{\"metric\":\"classic.mean\",\"gap\":{\"kind\":\"not-measured\",\"reason\":\"the case has no latencies\"},"
           "\"unit\":\"ns\",\"direction\":\"lower\"}\n");
  return 0;
}
