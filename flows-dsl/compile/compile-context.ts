/** The compile context: reads parts of a definition, reports diagnostics with their location, and compiles values. */

import { AppliedExtensions, Components, secretsIn } from '../components/components.ts'
import { DiagnosticList } from '../diagnostics/diagnostics.ts'
import { KEYS } from '../diagnostics/remedies.ts'
import type { Json, Template } from '../ir.ts'
import type { Expression } from '../jq/expression.ts'
import { parseExpression } from '../jq/parser/parse.ts'
import { type Shape, shapeOf, shapeOfFields, type ValueType } from '../jq/static-type.ts'
import { fieldOf, objectOf } from '../json.ts'
import {
  describeNode,
  type Location,
  type MapEntry,
  type MapNode,
  type ScalarNode,
  type SourceNode,
  valueAt,
} from './source-nodes.ts'

/** A platform function and its arguments, by the names that `with` gives them. */
export interface CatalogueFunction {
  readonly description: string
  readonly required: readonly string[]
  readonly optional: readonly string[]
  /** Short and idempotent, so an execution may call it inline, without an activity task of its own. */
  readonly local?: true
  /** Persists its arguments where others can read them: they must not contain a secret. */
  readonly stores?: true
}

export type Catalogue = Readonly<Record<string, CatalogueFunction>>

/** The variables that each kind of expression sees (OWS 1.0 "Runtime expression arguments"), besides `$secrets`. */
export const SCOPES = {
  flowInput: ['workflow', 'runtime'],
  flowOutput: ['context', 'workflow', 'runtime'],
  taskInput: ['context', 'task', 'workflow', 'runtime'],
  task: ['context', 'input', 'task', 'workflow', 'runtime'],
  taskExport: ['context', 'input', 'output', 'task', 'workflow', 'runtime'],
} as const satisfies Record<string, readonly string[]>

type Variables = readonly string[]
type KeyLists = [known?: readonly string[], unsupported?: readonly string[]]

/** Names that a task cannot give to a variable of its own. `authorization` is part of OWS, but not yet supported. */
export const RESERVED: Variables = [
  'context',
  'input',
  'output',
  'task',
  'workflow',
  'runtime',
  'secrets',
  'authorization',
]
export const VARIABLE = '^[A-Za-z_][A-Za-z0-9_]*$'

/** The beginning of a path or a variable: `.order.id`, `$context`. */
const PATH_LIKE = /^\s*(?:\.[A-Za-z_["]|\$[A-Za-z_])/
const WHOLE = /^\s*\$\{([\s\S]*)\}\s*$/

/** The state of compiling one definition. Methods that read return undefined after reporting a diagnostic. */
export class CompileContext extends DiagnosticList {
  readonly catalogue: Catalogue
  /** Diagnostics of suspicious code that do not prevent publishing. */
  readonly warnings = new DiagnosticList()
  /** Names of the functions that the definition calls and of the secrets that it reads. */
  readonly functions = new Set<string>()
  readonly secrets = new Set<string>()
  /** The components under `use` (components/use.ts), declared before anything refers to them. */
  readonly components: Components = new Components(this)
  declaredSecrets: readonly string[] = []
  readonly extensions = new AppliedExtensions()
  /** In loose mode (`evaluate.mode`), plain text is an expression, too. */
  isLoose = false
  /** The shape of the input of the flow, and of that of the task that is being compiled, as far as schemas tell it. */
  flowInput: Shape | undefined
  #taskInput: Shape | undefined
  #onlyVariables: Variables | undefined
  #locals: Variables = []

  constructor(catalogue: Catalogue) {
    super()
    this.catalogue = catalogue
  }

  /** Compiles something below a task that defines variables; expressions compiled meanwhile may refer to them. */
  withVariables<T>(variables: Variables, compile: () => T): T {
    return this.#withLocals([...new Set([...this.#locals, ...variables])], compile)
  }

  /** Compiles a task whose input has this shape. */
  withInput<T>(input: Shape | undefined, compile: () => T): T {
    const before = this.#taskInput
    this.#taskInput = input
    const result = compile()
    this.#taskInput = before
    return result
  }

  /** Compiles a component, which does not see the variables of the tasks that use it. */
  isolated<T>(compile: () => T): T {
    return this.#withLocals([], compile)
  }

  #withLocals<T>(locals: Variables, compile: () => T): T {
    const before = this.#locals
    this.#locals = locals
    const result = compile()
    this.#locals = before
    return result
  }

  /** Compiles something that sees these variables and no others, not even `$secrets`. */
  onlyVariables<T>(variables: Variables, compile: () => T): T {
    this.#onlyVariables = variables
    const result = compile()
    this.#onlyVariables = undefined
    return result
  }

  /** A mapping, whose other keys are rejected if the known ones are given. */
  map(value: SourceNode, what: string, ...[known, unsupported]: KeyLists): MapNode | undefined {
    if (value.kind !== 'map')
      return this.report('wrong_type', value, `${what} must be a mapping; it is ${describeNode(value)}.`)
    if (known !== undefined)
      this.keys(value, what.charAt(0).toLowerCase() + what.slice(1), known, unsupported)
    return value
  }

  /** The mapping at a key, if the key is there. */
  optionalMap(map: MapNode, key: string, ...keys: KeyLists): MapNode | undefined {
    const value = valueAt(map, key)
    return value && this.map(value, `\`${key}\``, ...keys)
  }

  /** The only entry of an item in a list of single-key mappings. */
  singleEntry(item: SourceNode, message: string, hint?: string): MapEntry | undefined {
    const [entry, other] = item.kind === 'map' ? item.entries : []
    if (entry !== undefined && other === undefined) return entry
    return this.report('task_not_single', other?.at ?? item, message, hint)
  }

  requiredMap(map: MapNode, what: string, key: string, ...keys: KeyLists): MapNode | undefined {
    const value = this.required(map, what, key)
    return value && this.map(value, `\`${key}\``, ...keys)
  }

  text(value: SourceNode, what: string): string | undefined {
    if (value.kind === 'scalar' && typeof value.value === 'string') return value.value
    const quote =
      value.kind === 'scalar' && value.value !== null ? `Put it in quotes: '${value.value}'.` : undefined
    return this.report('wrong_type', value, `${what} must be a string; it is ${describeNode(value)}.`, quote)
  }

  /** The string at a key, if the key is there. */
  optionalText(map: MapNode, key: string): string | undefined {
    const value = valueAt(map, key)
    return value && this.text(value, `\`${key}\``)
  }

  requiredText(map: MapNode, what: string, key: string): string | undefined {
    const value = this.required(map, what, key)
    return value && this.text(value, `\`${key}\``)
  }

  /** The names of the variables for an item and for its index, at `key` and `at`; they must differ. */
  itemVariables(map: MapNode, key: 'each' | 'item', noun: string): readonly [item: string, index: string] {
    const item = this.variable(map, key, 'item')
    const index = this.variable(map, 'at', 'index')
    if (item === index) {
      const location = valueAt(map, 'at') ?? valueAt(map, key) ?? map
      this.report('value_invalid', location, `The ${noun} and its index are both named $${index}.`)
    }
    return [item, index]
  }

  /** The name of a variable that a task defines, without `$`. */
  variable(map: MapNode, key: string, fallback: string): string {
    const node = valueAt(map, key)
    const name = node && this.text(node, `\`${key}\``)
    if (node === undefined || name === undefined) return fallback
    if (RESERVED.includes(name)) {
      this.report('value_invalid', node, `The variable $${name} already exists. Choose another name.`)
    } else if (!new RegExp(VARIABLE).test(name)) {
      const hint = name.startsWith('$') ? 'Write it without the `$`.' : undefined
      this.report('value_invalid', node, `\`${name}\` cannot be the name of a variable.`, hint)
    } else return name
    return fallback
  }

  /** An integer from `min` to `max`. */
  integer(
    value: SourceNode,
    what: string,
    min = Number.MIN_SAFE_INTEGER,
    max = Infinity,
  ): number | undefined {
    const count = value.kind === 'scalar' ? value.value : undefined
    if (typeof count !== 'number' || !Number.isSafeInteger(count) || count < min) {
      const range = min === Number.MIN_SAFE_INTEGER ? '' : `, ${min} or more`
      const code = typeof count === 'number' ? 'value_invalid' : 'wrong_type'
      return this.report(code, value, `${what} must be a whole number${range}.`)
    }
    return count <= max ? count : this.report('value_invalid', value, `${what} must be at most ${max}.`)
  }

  /** The boolean at a key, or the fallback. */
  boolean(map: MapNode, key: string, fallback: boolean): boolean | undefined {
    const node = valueAt(map, key)
    if (node === undefined) return fallback
    if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value
    return this.report('wrong_type', node, `\`${key}\` must be true or false.`)
  }

  /** One of several words, or the first of them if the key is not there. */
  choice<Word extends string>(
    map: MapNode,
    key: string,
    words: readonly [Word, ...Word[]],
  ): Word | undefined {
    return valueAt(map, key) === undefined ? words[0] : this.optionalChoice(map, key, words)
  }

  /** One of several words, if the key is there. */
  optionalChoice<Word extends string>(map: MapNode, key: string, words: readonly Word[]): Word | undefined {
    const node = valueAt(map, key)
    const text = node && this.text(node, `\`${key}\``)
    if (node === undefined || text === undefined) return undefined
    const word = words.find((one) => one === text)
    return word ?? this.reportUnknown('value_invalid', node, `\`${key}\` cannot be \`${text}\`.`, text, words)
  }

  /** One of several words in any case, or an expression, if the key is there. */
  wordOrExpression(map: MapNode, key: string, words: readonly string[]): string | undefined {
    const text = this.optionalText(map, key)
    const isKnown = text === undefined || words.includes(text) || words.includes(text.toUpperCase())
    if (isKnown || text.includes('${')) return text
    const at = valueAt(map, key) ?? map
    return this.reportUnknown('value_invalid', at, `\`${key}\` cannot be \`${text}\`.`, text, words)
  }

  /** The one key of several that a mapping has; a second one is reported. */
  exclusiveKey<Key extends string>(map: MapNode, what: string, keys: readonly Key[]): Key | undefined {
    const [found, other] = keys.flatMap((key) => map.entries.find((entry) => entry.key === key) ?? [])
    if (found !== undefined && other !== undefined) {
      this.report(
        'value_invalid',
        other.at,
        `${what} cannot have both \`${found.key}\` and \`${other.key}\`.`,
      )
    }
    return found?.key as Key | undefined
  }

  /** Rejects unknown keys. `unsupported` are keys of the language that this release does not support. */
  keys(map: MapNode, what: string, known: readonly string[], unsupported: readonly string[] = []): void {
    for (const { key, at } of map.entries) {
      if (known.includes(key)) continue
      if (unsupported.includes(key)) {
        const message = `\`${key}\` in ${what} is part of the language, but not supported in this release.`
        this.report('unsupported_feature', at, message)
      } else
        this.reportUnknown(
          'unknown_key',
          at,
          `The key \`${key}\` does not belong in ${what}.`,
          key,
          known,
          fieldOf(KEYS, `${what.replaceAll('`', '')}.${key}`) ?? fieldOf(KEYS, key),
        )
    }
  }

  required(map: MapNode, what: string, key: string): SourceNode | undefined {
    return valueAt(map, key) ?? this.report('missing_key', map, `${what} needs the key \`${key}\`.`)
  }

  /** A condition: a boolean, or an expression with or without `${ }`. */
  condition(value: SourceNode, what: string, variables: Variables): Expression | undefined {
    if (value.kind === 'scalar' && typeof value.value === 'boolean')
      return { op: 'literal', value: value.value }
    if (this.text(value, what) === undefined) return undefined
    const condition = this.expression(value as ScalarNode, variables)
    if (condition !== undefined && assigns(condition)) {
      const hint = '`==` compares.'
      const message = `${what} assigns: \`=\` yields a changed copy of the data, which counts as true.`
      this.warnings.report('condition_assigns', value, message, hint)
    }
    return condition
  }

  /** A template that is text without an expression, although it is written like one. */
  isLikeExpression(value: SourceNode, variables: Variables): boolean {
    if (this.isLoose || value.kind !== 'scalar' || typeof value.value !== 'string') return false
    if (value.value.includes('${') || !PATH_LIKE.test(value.value)) return false
    return 'op' in parseExpression(value.value, this.#visible(variables))
  }

  /** The condition at a key, if the key is there. */
  optionalCondition(map: MapNode, key: string, variables: Variables): Expression | undefined {
    const value = valueAt(map, key)
    return value && this.condition(value, `\`${key}\``, variables)
  }

  /** A filter (`from`, `as`): a string is an expression, with or without `${ }`; anything else is a template. */
  filter(value: SourceNode, variables: Variables): Template | undefined {
    if (value.kind !== 'scalar' || typeof value.value !== 'string') return this.template(value, variables)
    const expression = this.expression(value, variables)
    return expression && { expression }
  }

  /** A string that may be an expression. */
  textTemplate(value: SourceNode, what: string): Template | undefined {
    const template = this.text(value, what) === undefined ? undefined : this.template(value, SCOPES.task)
    this.yields(value, what, template, ['string'])
    return template
  }

  /** A mapping, or one expression that yields a mapping. */
  mapTemplate(value: SourceNode, what: string): Template | undefined {
    const map = isExpression(value) ? value : this.map(value, what)
    return map && this.template(map, SCOPES.task)
  }

  /** Warns of an expression on the input of the task whose value certainly has none of the types that its place takes. */
  yields(
    value: SourceNode,
    what: string,
    template: Template | undefined,
    wanted: readonly [ValueType, ...ValueType[]],
  ): void {
    if (template === undefined || !('expression' in template)) return
    const workflow = shapeOfFields({ input: this.flowInput })
    const [dot, variables] = [this.#taskInput, { workflow, input: this.#taskInput }]
    const found = shapeOf(template.expression, { dot, variables })
    if (found === undefined || wanted.some((type) => found.types.has(type))) return
    const message = `${what} must be ${namesOfTypes(wanted)}; this expression yields ${namesOfTypes([...found.types])}.`
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the author should write
    const hint = wanted.includes('array') ? 'Make a list of it: ${ [ … ] }.' : undefined
    this.warnings.report('expression_type', value, message, hint)
  }

  /** A value in which strings of the form `${ … }` are expressions. */
  template(value: SourceNode, variables: Variables): Template | undefined {
    if (value.kind === 'list') return this.#list(value.items, variables)
    if (value.kind === 'map') return this.fields(value, variables)
    if (value.kind === 'refused') return undefined
    if (typeof value.value !== 'string') return { literal: value.value }
    if (!value.value.includes('${')) return this.#plain(value, value.value, variables)
    if (WHOLE.test(value.value)) {
      const expression = this.expression(value, variables)
      return expression && { expression }
    }
    const at = value.locationOf(value.value.indexOf('${'))
    if (/^\s*\$\{[^}]*$/.test(value.value)) {
      const message = 'The expression is not closed; a `}` is missing.'
      return this.report('expression_partial', at, message, 'Put `}` at the end of the text.')
    }
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the author should write
    const hint = 'Write a text with values in it as ${ "Hello, \\(.name)!" }, and ${ itself as ${ "${" }.'
    return this.report('expression_partial', at, 'An expression must be the whole of the string.', hint)
  }

  /** A text without `${ }`. In loose mode it yields its value as an expression, or itself if that fails. */
  #plain(value: ScalarNode, text: string, variables: Variables): Template | undefined {
    const names = this.#visible(variables)
    if (!this.isLoose || 'offset' in parseExpression(text, names)) return { literal: text }
    const parsed = parseExpression(`try (${text}\n) catch ${JSON.stringify(text)}`, names)
    if (!('op' in parsed)) return { literal: text }
    return this.#checkSecrets(parsed, value) ? { expression: parsed } : undefined
  }

  #list(values: readonly SourceNode[], variables: Variables): Template | undefined {
    const items = values.map((item) => this.template(item, variables))
    const array = items.filter((item) => item !== undefined)
    if (array.length < items.length) return undefined
    const plain = array.filter((item) => 'literal' in item)
    return plain.length === array.length ? { literal: plain.map((item) => item.literal) } : { array }
  }

  /** A template that is a mapping. */
  fields(map: MapNode, variables: Variables): Template | undefined {
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

  expression(value: ScalarNode, variables: Variables): Expression | undefined {
    const text = String(value.value)
    const inner = WHOLE.exec(text)?.[1]
    const parsed = parseExpression(inner ?? text, this.#visible(variables))
    if ('op' in parsed) return this.#checkSecrets(parsed, value) ? parsed : undefined
    const start = inner === undefined ? 0 : text.indexOf('${') + 2
    return this.report(
      'expression_invalid',
      value.locationOf(start + parsed.offset),
      parsed.message,
      parsed.hint,
    )
  }

  /** Records that the flow reads a secret. @returns false if the secret is not declared */
  secret(name: string, at: Location): boolean {
    if (this.declaredSecrets.includes(name)) {
      this.secrets.add(name)
      return true
    }
    const message = `The secret \`${name}\` is not declared in \`use.secrets\`.`
    this.reportUnknown('unknown_reference', at, message, name, this.declaredSecrets)
    return false
  }

  #visible(variables: Variables): Variables {
    return this.#onlyVariables ?? [...variables, 'secrets', ...this.#locals]
  }

  /** Every secret must be read by its literal name, so that a flow's secrets are known before it runs. */
  #checkSecrets(expression: Expression, at: Location): boolean {
    const { names, others } = secretsIn(expression)
    if (others) {
      const hint = 'Write $secrets.name; the name must be known before the flow runs.'
      this.report('secret_not_named', at, 'A secret can be read only by its name.', hint)
    }
    return names.map((name) => this.secret(name, at)).every(Boolean) && !others
  }
}

/** Tests if a condition is an assignment, or combines conditions of which one is. */
function assigns(condition: Expression): boolean {
  if (condition.op === 'assign') return condition.operator === '='
  if (condition.op !== 'and' && condition.op !== 'or') return false
  return assigns(condition.left) || assigns(condition.right)
}

const TYPE_NAMES: Readonly<Record<ValueType, string>> = {
  null: 'null',
  boolean: 'true or false',
  number: 'a number',
  string: 'a text',
  array: 'a list',
  object: 'a mapping',
}

const namesOfTypes = (types: readonly ValueType[]): string =>
  types.map((type) => TYPE_NAMES[type]).join(' or ')

/** A string that contains an expression. */
export function isExpression(value: SourceNode): value is ScalarNode & { readonly value: string } {
  return value.kind === 'scalar' && typeof value.value === 'string' && value.value.includes('${')
}
