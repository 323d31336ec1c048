/** Reads the parts of a definition: reports what is wrong with its location, compiles what is right. */

import type { Expression } from './expression/expression.ts'
import { parseExpression } from './expression/parse.ts'
import { FaultList } from './faults.ts'
import type { Json, Template } from './ir.ts'
import { objectOf } from './json.ts'
import { entryOf, type Located, type LocatedMap, type LocatedScalar, nameOf, type Place } from './located.ts'
import { Declarations, Extended, secretsIn } from './use/declarations.ts'

/** Arguments of a platform function, by the names that `with` gives them. */
export interface CatalogueFunction {
  readonly description: string
  readonly required: readonly string[]
  readonly optional: readonly string[]
  /** Short, and harmless where it is made twice: a run may do it beside itself, without a task of its own. */
  readonly local?: true
  /** It keeps its arguments where others read them: no secret may be among them. */
  readonly stores?: true
}

export type Catalogue = Readonly<Record<string, CatalogueFunction>>

/** Which variables exist where (OWS 1.0 "Runtime expression arguments"); `$secrets` exists everywhere. */
export const SCOPES = {
  flowInput: ['workflow', 'runtime'],
  flowOutput: ['context', 'workflow', 'runtime'],
  taskInput: ['context', 'task', 'workflow', 'runtime'],
  task: ['context', 'input', 'task', 'workflow', 'runtime'],
  taskExport: ['context', 'input', 'output', 'task', 'workflow', 'runtime'],
} as const satisfies Record<string, readonly string[]>

type Variables = readonly string[]

/** Names that no task can give to a variable of its own; the last is OWS's and not there yet. */
const RESERVED: Variables = [...SCOPES.taskExport, 'secrets', 'authorization']
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/

const WHOLE = /^\s*\$\{([\s\S]*)\}\s*$/

/**
 * Collects the faults of one definition. Methods that read answer undefined where they have noted a fault.
 */
export class Checker extends FaultList {
  readonly catalogue: Catalogue
  /** Names of what the definition calls and reads. */
  readonly functions = new Set<string>()
  readonly secrets = new Set<string>()
  /** What the definition declares for reuse (use/use.ts), in place before anything refers to it. */
  readonly declared: Declarations = new Declarations(this)
  declaredSecrets: readonly string[] = []
  readonly extended = new Extended()
  /** Whether texts are expressions too (`evaluate.mode`). */
  isLoose = false
  #only: Variables | undefined
  #locals: Variables = []

  constructor(catalogue: Catalogue) {
    super()
    this.catalogue = catalogue
  }

  /** Reads what stands within a task that gives it variables; expressions read meanwhile may name them. */
  within<T>(variables: Variables, read: () => T): T {
    const before = this.#locals
    this.#locals = [...before, ...variables.filter((name) => !before.includes(name))]
    const result = read()
    this.#locals = before
    return result
  }

  /** Reads what stands apart from the tasks that use it, and so sees none of their variables. */
  apart<T>(read: () => T): T {
    const before = this.#locals
    this.#locals = []
    const result = read()
    this.#locals = before
    return result
  }

  /** Reads what is evaluated where no other variables are than these, whatever its kind sees elsewhere. */
  only<T>(variables: Variables, read: () => T): T {
    this.#only = variables
    const result = read()
    this.#only = undefined
    return result
  }

  map(value: Located, what: string): LocatedMap | undefined {
    if (value.kind === 'map') return value
    return this.fault('wrong_type', value, `${what} must be a mapping; it is ${nameOf(value)}.`)
  }

  text(value: Located, what: string): string | undefined {
    if (value.kind === 'scalar' && typeof value.value === 'string') return value.value
    const quote =
      value.kind === 'scalar' && value.value !== null ? `Put it in quotes: '${value.value}'.` : undefined
    return this.fault('wrong_type', value, `${what} must be a string; it is ${nameOf(value)}.`, quote)
  }

  /** The name of a variable that a task makes, without `$`. */
  variable(map: LocatedMap, key: string, fallback: string): string {
    const given = entryOf(map, key)?.value
    const name = given && this.text(given, `\`${key}\``)
    if (given === undefined || name === undefined) return fallback
    if (RESERVED.includes(name)) {
      this.fault('value_invalid', given, `There is a variable $${name} already; choose another name.`)
    } else if (!VARIABLE.test(name)) {
      const hint = name.startsWith('$') ? 'Write it without the `$`.' : undefined
      this.fault('value_invalid', given, `\`${name}\` cannot be the name of a variable.`, hint)
    } else return name
    return fallback
  }

  /** A whole number, written as such. */
  integer(value: Located, what: string, min = Number.MIN_SAFE_INTEGER): number | undefined {
    const count = value.kind === 'scalar' ? value.value : undefined
    if (typeof count === 'number' && Number.isSafeInteger(count) && count >= min) return count
    const range = min === Number.MIN_SAFE_INTEGER ? '' : `, ${min} or more`
    const code = typeof count === 'number' ? 'value_invalid' : 'wrong_type'
    return this.fault(code, value, `${what} must be a whole number${range}.`)
  }

  /** Refuses keys that are not known; `later` are keys of the language that this release does not support. */
  keys(map: LocatedMap, what: string, known: readonly string[], later: readonly string[] = []): void {
    for (const { key, at } of map.entries) {
      if (known.includes(key)) continue
      if (later.includes(key)) {
        const message = `\`${key}\` in ${what} is known to the language and not supported in this release.`
        this.fault('unsupported_feature', at, message)
      } else this.unknown('unknown_key', at, `The key \`${key}\` does not belong in ${what}.`, key, known)
    }
  }

  required(map: LocatedMap, what: string, key: string): Located | undefined {
    return entryOf(map, key)?.value ?? this.fault('missing_key', map, `${what} needs the key \`${key}\`.`)
  }

  /** A condition: a boolean, or an expression with or without `${ }`. */
  condition(value: Located, what: string, variables: Variables): Expression | undefined {
    if (value.kind === 'scalar' && typeof value.value === 'boolean')
      return { op: 'literal', value: value.value }
    return this.text(value, what) === undefined
      ? undefined
      : this.expression(value as LocatedScalar, variables)
  }

  /** A filter (`from`, `as`): a string is an expression, with or without `${ }`; all else is a template. */
  filter(value: Located, variables: Variables): Template | undefined {
    if (value.kind !== 'scalar' || typeof value.value !== 'string') return this.template(value, variables)
    const expression = this.expression(value, variables)
    return expression && { expression }
  }

  /** A value in which strings that are wholly `${ … }` are expressions. */
  template(value: Located, variables: Variables): Template | undefined {
    if (value.kind === 'list') return this.#list(value.items, variables)
    if (value.kind === 'map') return this.fields(value, variables)
    if (value.kind === 'refused') return undefined
    if (typeof value.value !== 'string') return { literal: value.value }
    if (!value.value.includes('${')) return this.#plain(value, value.value, variables)
    if (WHOLE.test(value.value)) {
      const expression = this.expression(value, variables)
      return expression && { expression }
    }
    const at = value.placeOf(value.value.indexOf('${'))
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the author should write
    const hint = 'Write a text with values in it as ${ "Hello, \\(.name)!" }, and ${ itself as ${ "${" }.'
    return this.fault('expression_partial', at, 'An expression must be the whole of the string.', hint)
  }

  /** A text without `${ }`. In the loose mode it is what it yields, if it is an expression and does not fail. */
  #plain(value: LocatedScalar, text: string, variables: Variables): Template | undefined {
    const names = this.#visible(variables)
    if (!this.isLoose || 'offset' in parseExpression(text, names)) return { literal: text }
    const parsed = parseExpression(`try (${text}\n) catch ${JSON.stringify(text)}`, names)
    if (!('op' in parsed)) return { literal: text }
    return this.#secretsOf(parsed, value) ? { expression: parsed } : undefined
  }

  #list(values: readonly Located[], variables: Variables): Template | undefined {
    const items = values.map((item) => this.template(item, variables))
    const array = items.filter((item) => item !== undefined)
    if (array.length < items.length) return undefined
    const plain = array.filter((item) => 'literal' in item)
    return plain.length === array.length ? { literal: plain.map((item) => item.literal) } : { array }
  }

  /** A template that is a mapping. */
  fields(map: LocatedMap, variables: Variables): Template | undefined {
    const fields = map.entries.map(({ key, value }) => [key, this.template(value, variables)] as const)
    const object: (readonly [string, Template])[] = []
    const plain: (readonly [string, Json])[] = []
    for (const [key, field] of fields) {
      if (field === undefined) return undefined
      object.push([key, field])
      if ('literal' in field) plain.push([key, field.literal])
    }
    return plain.length === object.length ? { literal: objectOf(plain) } : { object }
  }

  expression(value: LocatedScalar, variables: Variables): Expression | undefined {
    const text = String(value.value)
    const inner = WHOLE.exec(text)?.[1]
    const parsed = parseExpression(inner ?? text, this.#visible(variables))
    if ('op' in parsed) return this.#secretsOf(parsed, value) ? parsed : undefined
    const start = inner === undefined ? 0 : text.indexOf('${') + 2
    return this.fault('expression_invalid', value.placeOf(start + parsed.offset), parsed.message, parsed.hint)
  }

  /** Whether a secret is declared; that a flow reads it is noted. */
  secret(name: string, at: Place): boolean {
    if (this.declaredSecrets.includes(name)) {
      this.secrets.add(name)
      return true
    }
    const message = `The secret \`${name}\` is not declared in \`use.secrets\`.`
    this.unknown('unknown_reference', at, message, name, this.declaredSecrets)
    return false
  }

  #visible(variables: Variables): Variables {
    return this.#only ?? [...variables, 'secrets', ...this.#locals]
  }

  /** Checks what an expression reads of `$secrets`. Nobody could say what a flow reads that does not name it. */
  #secretsOf(expression: Expression, at: Place): boolean {
    const { names, others } = secretsIn(expression)
    if (others) {
      const hint = 'Write $secrets.name; the name must be known before the flow runs.'
      this.fault('secret_not_named', at, 'A secret is read by its name alone.', hint)
    }
    return names.map((name) => this.secret(name, at)).every(Boolean) && !others
  }
}

/** The word below a key, or the fallback. Answers undefined where it has noted a fault. */
export function choiceBelow<Word extends string>(
  map: LocatedMap,
  key: string,
  words: readonly [fallback: Word, ...more: Word[]],
  checker: Checker,
): Word | undefined {
  const given = entryOf(map, key)?.value
  if (given === undefined) return words[0]
  const text = checker.text(given, `\`${key}\``)
  if (text === undefined) return undefined
  const word = words.find((one) => one === text)
  if (word !== undefined) return word
  return checker.unknown('value_invalid', given, `\`${key}\` cannot be \`${text}\`.`, text, words)
}

/** The boolean below a key, or the fallback. Answers undefined where it has noted a fault. */
export function booleanBelow(
  map: LocatedMap,
  key: string,
  fallback: boolean,
  checker: Checker,
): boolean | undefined {
  const given = entryOf(map, key)?.value
  if (given === undefined) return fallback
  if (given.kind === 'scalar' && typeof given.value === 'boolean') return given.value
  return checker.fault('wrong_type', given, `\`${key}\` must be true or false.`)
}

/** A whole number from 1 to `max`. Answers undefined where it has noted a fault. */
export function integerUpTo(given: Located, what: string, max: number, checker: Checker): number | undefined {
  const count = checker.integer(given, what, 1)
  if (count === undefined || count <= max) return count
  return checker.fault('value_invalid', given, `${what} must be at most ${max}.`)
}
