/** Checks the tools of an MCP server before they are published: texts, names, sizes and schemas. */

import { shortPointer } from '../../../core/json.ts'
import type { Group } from '../curation/groups.ts'
import { estimatedTokens, type Tool } from '../tool.ts'
import { portabilityFaults } from './lint-portability.ts'
import { SCHEMA_RULES, schemasIn } from './lint-schemas.ts'
import { plainWords, type Severity, TEXT_RULES, type Text } from './lint-texts.ts'

export interface LintFinding {
  /** Null: the server, or all its tools together. */
  readonly tool: string | null
  /** JSON pointer (RFC 6901) into the tool, or into the server (`/name`, `/description`, `/groups/0/title`); empty: the whole. */
  readonly pointer: string
  readonly rule: string
  readonly severity: Severity
  readonly detail: string
}

interface Server {
  readonly name: string
  readonly description: string
  readonly groups?: readonly Group[]
  readonly slug?: string
}

const LIST_BYTES_MAX = 40_000
const TOOL_BYTES_MAX = 4_000
/** Shorter names differ from others by one character by chance. */
const SIMILAR_NAME_CHARS_MIN = 5
/** Of one rule and tool; a large schema could break a rule thousands of times. */
const ADVICE_MAX = 5

/**
 * Checks everything that a client, a model or a user reads of a server.
 * @param tools all tools of one version
 * @param server its name, its groups, and its description, which clients get as instructions
 * @returns the findings: texts of the server, texts of each tool, then advice
 */
export function lintTools(
  tools: readonly Tool[],
  { name, description, groups = [], slug }: Server,
): LintFinding[] {
  const faultsOf = textRules(new Set(tools.map((tool) => tool.name)))
  return [
    ...textFindings(null, { name, description, groups }, faultsOf),
    ...tools.flatMap((tool) => textFindings(tool.name, publicPart(tool), faultsOf)),
    ...ambiguousNames(tools),
    ...poorDescriptions(tools),
    ...largeTools(tools),
    ...tools.flatMap((tool) => portabilityFaults(tool, slug).map((fault) => ({ tool: tool.name, ...fault }))),
    ...tools.flatMap(schemaFindings),
  ]
}

/** The part of a tool that clients see. */
function publicPart({ name, title, description, input_schema, output_schema, annotations }: Tool) {
  return { name, title, description, input_schema, ...(output_schema && { output_schema }), annotations }
}

type Fault = Pick<LintFinding, 'rule' | 'severity' | 'detail'>
type FaultsOf = (text: string, isLabel: boolean) => readonly Fault[]

/** Applies the rules on texts once to each text: the schemas of many tools are alike. */
function textRules(tools: ReadonlySet<string>): FaultsOf {
  const known = new Map<string, readonly Fault[]>()
  return (text, isLabel) => {
    const key = `${isLabel} ${text}`
    const faults = known.get(key) ?? findFaults({ text, words: plainWords(text), isLabel, tools })
    known.set(key, faults)
    return faults
  }
}

const findFaults = (text: Text): Fault[] =>
  TEXT_RULES.flatMap(({ rule, severity, find }) => {
    const detail = find(text)
    return detail === undefined ? [] : [{ rule, severity, detail }]
  })

/** Members whose text people take for what they know, so that it must not look like something else. */
const LABELS = new Set(['name', 'title'])

/** Applies the rules to all strings and names of members within a value. */
function textFindings(tool: string | null, part: object, faultsOf: FaultsOf): LintFinding[] {
  const found: LintFinding[] = []
  const left: { pointer: string; value: unknown; isLabel: boolean }[] = [
    { pointer: '', value: part, isLabel: false },
  ]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { pointer, value, isLabel } = next
    if (typeof value === 'string')
      for (const fault of faultsOf(value, isLabel)) found.push({ tool, pointer, ...fault })
    if (typeof value !== 'object' || value === null) continue
    for (const [name, member] of Object.entries(value).reverse()) {
      const at = `${pointer}/${shortPointer(name)}`
      left.push({ pointer: at, value: member, isLabel: LABELS.has(name) })
      if (!Array.isArray(value)) left.push({ pointer: at, value: name, isLabel: true })
    }
  }
  return found
}

const advice = (tool: string | null, pointer: string, rule: string, detail: string): LintFinding => ({
  tool,
  pointer,
  rule,
  severity: 'advice',
  detail,
})

function ambiguousNames(tools: readonly Tool[]): LintFinding[] {
  return tools.flatMap(({ name }, index) => {
    const similar = tools.slice(0, index).find((other) => areSimilar(other.name, name))
    if (similar === undefined) return []
    return [advice(name, '/name', 'ambiguous-name', `is easily taken for ${similar.name}`)]
  })
}

function areSimilar(a: string, b: string): boolean {
  if (skeleton(a) === skeleton(b)) return true
  return Math.min(a.length, b.length) >= SIMILAR_NAME_CHARS_MIN && isOneEdit(a.toLowerCase(), b.toLowerCase())
}

/** Equal for names that differ by case, separators, or digits in place of letters. */
const skeleton = (name: string) =>
  name.toLowerCase().replaceAll(/[_.-]/g, '').replaceAll('0', 'o').replaceAll(/[1i]/g, 'l')

/** True if one character changed, added or removed makes one text the other. */
function isOneEdit(a: string, b: string): boolean {
  const [short, long] = a.length <= b.length ? [a, b] : [b, a]
  if (long.length - short.length > 1) return false
  let at = 0
  while (at < short.length && short[at] === long[at]) at += 1
  return short.slice(short.length === long.length ? at + 1 : at) === long.slice(at + 1)
}

function poorDescriptions(tools: readonly Tool[]): LintFinding[] {
  const firstWith = new Map<string, string>()
  return tools.flatMap((tool) => {
    const text = comparable(tool.description)
    const same = firstWith.get(text)
    if (same === undefined) firstWith.set(text, tool.name)
    const find = (rule: string, detail: string) => [advice(tool.name, '/description', rule, detail)]
    if (text === '') return find('no-description', 'is empty')
    if (same !== undefined) return find('duplicate-description', `is that of ${same}`)
    return text === comparable(tool.title) ? find('description-is-title', 'says no more than the title') : []
  })
}

const comparable = (text: string) => text.trim().replace(/\.$/, '').toLowerCase()

function largeTools(tools: readonly Tool[]): LintFinding[] {
  const sizes = tools.map((tool) => Buffer.byteLength(JSON.stringify(publicPart(tool))))
  const total = sizes.reduce((sum, bytes) => sum + bytes, 0)
  const large = tools.flatMap(({ name }, index) =>
    sizeAdvice(name, 'large-tool', sizes[index] ?? 0, TOOL_BYTES_MAX),
  )
  return [...sizeAdvice(null, 'large-list', total, LIST_BYTES_MAX), ...large]
}

function sizeAdvice(tool: string | null, rule: string, bytes: number, max: number): LintFinding[] {
  if (bytes <= max) return []
  const detail = `has ${bytes} bytes, about ${estimatedTokens(bytes)} tokens; more than ${max} bytes distract models`
  return [advice(tool, '', rule, detail)]
}

function schemaFindings({ name, input_schema, output_schema }: Tool): LintFinding[] {
  const schemas = [
    ...schemasIn(input_schema, '/input_schema'),
    ...(output_schema ? schemasIn(output_schema, '/output_schema') : []),
  ]
  return SCHEMA_RULES.flatMap(({ rule, find }) =>
    schemas
      .flatMap(([pointer, schema]) => {
        const detail = find(schema)
        return detail === undefined ? [] : [advice(name, pointer, rule, detail)]
      })
      .slice(0, ADVICE_MAX),
  )
}
