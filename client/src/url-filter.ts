/** Writes a filter in the URL form, which live queries take: `and=(status.eq."open",age.gte.18)` (docs/queries.md). */

type Members = Readonly<Record<string, unknown>>

/** Names that would end a path in the URL form, so a field of such a name is written in quotes. */
const OPERATORS =
  /^(not|eq|neq|gte?|lte?|in|like|ilike|is|isdistinct|exists|cs|cd|ov|json_path_eq|some|none|near)$/

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** @returns undefined for a filter that all documents match. @throws TypeError for what the URL form cannot express */
export function toUrlFilter(filter: Members): string | undefined {
  const terms = termsOf(filter)
  return terms.length === 0 ? undefined : `(${terms.join()})`
}

/** Terms that all hold. Groups are left out where they change nothing, since the server takes ten in one another. */
function termsOf(filter: Members): string[] {
  return Object.entries(filter).flatMap(([key, value]) => {
    if (value === undefined) return []
    if (key === '$and') return (value as readonly Members[]).flatMap(termsOf)
    if (key === '$or') return [anyOf((value as readonly Members[]).map((one) => allOf(requireTerms(one))))]
    if (key === '$not') return [`not.and(${requireTerms(value as Members).join()})`]
    return testsOf(toPath(key), value)
  })
}

function requireTerms(filter: Members): readonly string[] {
  const terms = termsOf(filter)
  if (terms.length === 0) throw new TypeError('A group of a live query has an empty filter.')
  return terms
}

const allOf = (terms: readonly string[]): string =>
  terms.length === 1 ? String(terms[0]) : `and(${terms.join()})`
const anyOf = (terms: readonly string[]): string =>
  terms.length === 1 ? String(terms[0]) : `or(${terms.join()})`

/** The tests of one field, which all hold. */
function testsOf(path: string, value: unknown): string[] {
  if (!isObject(value)) return [test(path, 'eq', value)]
  return Object.entries(value).flatMap(([operator, operand]) => {
    if (operand === undefined) return []
    const name = operator.replace(/^\$/, '')
    return name === 'not' ? [`not.and(${testsOf(path, operand).join()})`] : [test(path, name, operand)]
  })
}

function test(path: string, operator: string, value: unknown): string {
  const name = operator === 'ne' ? 'neq' : operator
  if (value === null && name === 'eq') return `${path}.is.null`
  if (value === null && name === 'neq') return `${path}.not.is.null`
  if (name === 'some' || name === 'none') return `${path}.${name}.(${termsOf(value as Members).join()})`
  return `${path}.${name}.${operand(name, value)}`
}

function operand(operator: string, value: unknown): string {
  if (operator === 'cs' || operator === 'cd' || operator === 'ov') return JSON.stringify(value)
  if (operator.endsWith(')')) return `{${list(value).map(quoted).join()}}`
  if (operator === 'in' || operator === 'json_path_eq') return `(${list(value).map(literal).join()})`
  if (operator === 'is' || operator === 'exists') return String(value)
  return literal(value)
}

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value])

/** A text in quotes is a text, whatever it looks like. */
const literal = (value: unknown): string =>
  typeof value === 'string' ? quoted(value) : JSON.stringify(value)

const quoted = (value: unknown): string =>
  typeof value === 'string' ? `"${value.replace(/["\\]/g, '\\$&')}"` : JSON.stringify(value)

/** Splits at dots outside quotes, and quotes names that are operators. */
const toPath = (key: string): string =>
  key.replace(/"(?:\\.|[^"\\])*"|[^.]+/g, (name) => (OPERATORS.test(name) ? `"${name}"` : name))
