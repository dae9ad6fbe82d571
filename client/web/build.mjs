// Builds dist/ from src/: the same sources and the same lockfile give the same bytes.
// `node build.mjs --check` writes nothing, and ends with status 1 if dist/ is stale.
import { build } from "esbuild";
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { gzipSync } from "node:zlib";

const here = new URL(".", import.meta.url);
const most = { plain: 160_000, gzip: 60_000 };

const built = await build({
  absWorkingDir: decodeURIComponent(here.pathname),
  entryPoints: { app: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  outdir: "dist",
  write: false,
});
const files = new Map(built.outputFiles.map((one) => [one.path.split("/").pop(), Buffer.from(one.contents)]));
for (const name of ["index.html", "icon.svg"]) files.set(name, readFileSync(new URL(`src/${name}`, here)));

const plain = [...files.values()].reduce((sum, one) => sum + one.length, 0);
const gzip = [...files.values()].reduce((sum, one) => sum + gzipSync(one, { level: 9 }).length, 0);
console.log(`${plain} bytes, ${gzip} gzipped, in ${files.size} files`);
if (plain > most.plain || gzip > most.gzip) {
  console.error(`at most ${most.plain} bytes, ${most.gzip} gzipped`);
  process.exit(1);
}
mkdirSync(new URL("dist/", here), { recursive: true });
for (const [name, content] of files) {
  const path = new URL(`dist/${name}`, here);
  if (!process.argv.includes("--check")) {
    writeFileSync(path, content);
    continue;
  }
  let kept = Buffer.alloc(0);
  try {
    kept = readFileSync(path);
  } catch {} // it is not there: then it is stale
  if (!kept.equals(content)) {
    console.error(`client/web/dist/${name} is stale: \`make web\` writes it`);
    process.exitCode = 1;
  }
}
