// The plugin: the page of `page.js` for the views of a run.

import { write } from "tare:plugin/output@{{wit}}";
import { read } from "tare:plugin/views@{{wit}}";

import { markdown, readOptions, rows, utf8 } from "./page.js";

export const report = {
  describe() {
    return {
      id: "{{name}}",
      version: "0.1.0",
      summary: "Lists the cases with their median latency as Markdown.",
      license: "MIT OR Apache-2.0",
      options: [{ name: "title", value: "Heading of the page; `Median latency` by default." }],
    };
  },

  render(options) {
    // Options are checked before the first view is read.
    const title = readOptions(options);
    const text = markdown(title, rows(read("cases")), rows(read("results")));
    write("{{name}}.md", utf8(text));
    return ["{{name}}.md"];
  },
};
