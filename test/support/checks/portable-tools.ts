/** Checks listed tools for what some client refuses: names, arguments or results that are no object, references, lists of types. */

const AT_TOP = ['anyOf', 'oneOf', 'allOf', '$ref']
const NOWHERE = ['$ref', '$defs', 'definitions', 'patternProperties']

/** @returns the JSON of the first part of a shown schema that some client refuses, after its keyword */
export function unportablePart(schema: unknown): string | undefined {
  const top = Object(schema) as Record<string, unknown>
  if (top['type'] !== 'object') return `type: ${JSON.stringify(top['type'])}`
  const found = AT_TOP.find((keyword) => Object.hasOwn(top, keyword))
  return found === undefined ? partIn(schema) : `${found} at the top`
}

/** As `jq '[.. | objects | select(has("$ref") or … or ((.type|type)=="array"))]'`, apart from members of these names. */
function partIn(value: unknown, isMap = false): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const keyword = isMap ? undefined : NOWHERE.find((one) => Object.hasOwn(value, one))
  if (keyword !== undefined) return `${keyword}: ${JSON.stringify(value)}`
  if (!isMap && Array.isArray((value as { type?: unknown }).type)) return `type: ${JSON.stringify(value)}`
  for (const [name, part] of Object.entries(value)) {
    if (!isMap && ['enum', 'const', 'default', 'examples'].includes(name)) continue
    const found = partIn(part, !isMap && name === 'properties')
    if (found !== undefined) return found
  }
  return undefined
}

/** OpenAI and Gemini refuse a tool with such an argument. */
function listWithoutItems(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { type } = value as { type?: unknown }
  if (type === 'array' && !('items' in value)) return `no items: ${JSON.stringify(value)}`
  return Object.values(value).reduce<string | undefined>(
    (found, part) => found ?? listWithoutItems(part),
    undefined,
  )
}

interface ShownTool {
  readonly name: string
  readonly title?: string
  readonly description?: string
  readonly inputSchema: unknown
  readonly outputSchema?: unknown
}

/** What a client refuses of each tool in `tools/list`. */
export const unportableTools = (tools: readonly ShownTool[]): string[] =>
  tools.flatMap(({ name, inputSchema, outputSchema }) => {
    const diagnostics = [
      /^[A-Za-z0-9_-]{1,64}$/.test(name) ? undefined : 'its name',
      unportablePart(inputSchema) ?? listWithoutItems(inputSchema),
      outputSchema === undefined ? undefined : unportablePart(outputSchema),
    ]
    return diagnostics.flatMap((fault) => (fault === undefined ? [] : [`${name}: ${fault}`]))
  })
