// Writes src/documents.ts, the types of docs/openapi.json: one type for each schema, and nothing else.
// `node types.mjs --check` writes nothing, and ends with status 1 if the file is stale.
import { readFileSync, writeFileSync } from "node:fs";

const here = new URL(".", import.meta.url);
const file = new URL("src/documents.ts", here);
const { schemas } = JSON.parse(readFileSync(new URL("../../docs/openapi.json", here), "utf8")).components;

const words = { integer: "number", number: "number", string: "string", boolean: "boolean", null: "null" };

function type(schema, indent) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  if (schema.oneOf) return schema.oneOf.map((one) => type(one, indent)).join(" | ");
  if (schema.allOf) return schema.allOf.map((one) => type(one, indent)).join(" & ");
  if (Array.isArray(schema.type)) {
    return schema.type.map((one) => type({ ...schema, type: one }, indent)).join(" | ");
  }
  if (schema.type === "array") {
    const items = type(schema.items, indent);
    return items.includes(" ") ? `(${items})[]` : `${items}[]`;
  }
  if (schema.type === "object" || schema.properties) return object(schema, indent);
  if (words[schema.type]) return words[schema.type];
  throw new Error(`a schema that nobody expected: ${JSON.stringify(schema)}`);
}

function object(schema, indent) {
  const required = new Set(schema.required ?? []);
  const deep = `${indent}  `;
  const fields = Object.entries(schema.properties ?? {}).map(([name, of]) => {
    return `${deep}${name}${required.has(name) ? "" : "?"}: ${type(of, deep)};\n`;
  });
  return fields.length ? `{\n${fields.join("")}${indent}}` : "Record<string, unknown>";
}

let text = "// Generated from docs/openapi.json by client/web/types.mjs: change those, not this file.\n";
for (const [name, schema] of Object.entries(schemas)) {
  const what = (schema.description ?? "").split("\n")[0];
  text += `\n${what ? `/** ${what} */\n` : ""}export type ${name} = ${type(schema, "")};\n`;
}
if (process.argv.includes("--check")) {
  if (readFileSync(file, "utf8") !== text) {
    console.error("client/web/src/documents.ts is stale: `make web` writes it");
    process.exit(1);
  }
} else {
  writeFileSync(file, text);
}
