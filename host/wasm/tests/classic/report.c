// A report as a classic module: the number of cases. See metric.c.
//
//     clang --target=wasm32-wasi -Os -s report.c -o report.wasm
#include <stdio.h>
#include <string.h>

static char line[1 << 20];

int main(void) {
  if (!fgets(line, sizeof line, stdin)) return 1;
  if (strstr(line, "\"call\":\"describe\"")) {
    printf("{\"kind\":\"report\",\"id\":\"classic-report\",\"version\":\"1.0.0\",\"summary\":\"The number of cases.\","
           "\"license\":\"MIT\",\"options\":{\"loud\":\"Whether to shout.\"},\"views\":[\"cases\"]}\n");
    return 0;
  }
  if (strstr(line, "\"loud\":true")) {
    printf("{\"error\":\"options: it does not shout\"}\n");
    return 0;
  }
  int rows = 0;
  while (fgets(line, sizeof line, stdin)) {
    const char *start = "{\"view\":\"cases\",\"rows\":[";
    if (strncmp(line, start, strlen(start))) continue;
    for (char *at = line + strlen(start); *at; at++) rows += *at == '[';
  }
  printf("{\"file\":\"cases.txt\",\"text\":\"%d cases\\n\"}\n{\"file\":\"more.txt\",\"text\":\"\"}\n", rows);
  return 0;
}
