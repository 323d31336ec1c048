/** Reads a constant that a compiled module exports as a literal, from its syntax tree. */

import type { Expression, Identifier, ObjectExpression, Program, Property, SpreadElement } from 'acorn'
import type { Location, MapEntry, SourceNode } from '../../../flows-dsl/compile/source-nodes.ts'
import type { DiagnosticList } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { fieldOf, pointerTo } from '../../../flows-dsl/json.ts'
import { hiddenIn } from '../../core/text/visible-text.ts'
import { FUNCTION_LIMITS } from './limits.ts'

const { charsMax, depthMax } = FUNCTION_LIMITS.constant

/**
 * The value of an exported constant as source nodes. Their `column` is an offset in the compiled code.
 * @param program of a module that esbuild compiled, so that its exports are `export{local as name}`
 * @param list receives the reasons why it cannot be read
 * @returns undefined if the module has no such export
 */
export function exportedLiteral(
  program: Program,
  name: string,
  list: DiagnosticList,
): SourceNode | undefined {
  const local = localName(program, name)
  return local && new LiteralReader(program, name, list).read(local, '')
}

const locationOf = (offset: number, pointer: string): Location => ({ line: 1, column: offset, pointer })

/** The local name of an export. */
function localName(program: Program, name: string): Identifier | undefined {
  for (const statement of program.body) {
    if (statement.type !== 'ExportNamedDeclaration') continue
    for (const { exported, local } of statement.specifiers)
      if (nameOf(exported) === name && local.type === 'Identifier') return local
  }
  return undefined
}

/** The initialisers of the module's constants, by name. A bundler writes those of its modules as `var`. */
function constantsOf(program: Program): ReadonlyMap<string, Expression> {
  const constants = new Map<string, Expression>()
  for (const statement of program.body) {
    if (statement.type !== 'VariableDeclaration' || statement.kind === 'let') continue
    for (const { id, init } of statement.declarations)
      if (id.type === 'Identifier' && init) constants.set(id.name, init)
  }
  return constants
}

/** Syntax that is no literal, by its type, as messages call it. */
const OTHER_SYNTAX: Readonly<Record<string, string>> = {
  ArrowFunctionExpression: 'a function',
  FunctionExpression: 'a function',
  ClassExpression: 'a class',
  CallExpression: 'a call',
  NewExpression: 'a call',
  SpreadElement: 'a spread',
  TemplateLiteral: 'a text with a substitution',
  Literal: 'a regular expression or a bigint',
}

/** Turns the syntax tree of a literal into source nodes, up to a size and a depth. */
class LiteralReader {
  readonly #constants: ReadonlyMap<string, Expression>
  readonly #name: string
  readonly #list: DiagnosticList
  #chars = 0

  constructor(program: Program, name: string, list: DiagnosticList) {
    this.#constants = constantsOf(program)
    this.#name = name
    this.#list = list
  }

  read(node: Expression | SpreadElement, pointer: string, depth = 1): SourceNode {
    const at = locationOf(node.start, pointer)
    // The same constant may be referred to many times, so this also ends what would grow exponentially.
    if (!this.#hasRoom(1, at)) return { kind: 'refused', ...at }
    if (depth > depthMax) return this.#refuse(at, `It is nested deeper than ${depthMax}.`)
    if (node.type === 'Identifier') return this.#readConstant(node, pointer, depth)
    if (node.type === 'ObjectExpression')
      return { kind: 'map', ...at, entries: this.#readEntries(node, pointer, depth) }
    if (node.type === 'ArrayExpression') {
      const items = node.elements.map((item, index) => {
        const inner = pointerTo(pointer, index)
        return item === null ? this.#refuseSyntax(at, 'a list with a gap') : this.read(item, inner, depth + 1)
      })
      return { kind: 'list', ...at, items }
    }
    const value = scalarOf(node)
    if (value === undefined)
      return this.#refuseSyntax(at, fieldOf(OTHER_SYNTAX, node.type) ?? 'an expression')
    if (typeof value === 'string' && !this.#accepts(value, at)) return { kind: 'refused', ...at }
    return { kind: 'scalar', ...at, value, locationOf: () => at }
  }

  #readConstant({ name, start }: Identifier, pointer: string, depth: number): SourceNode {
    const value = this.#constants.get(name)
    if (value !== undefined) return this.read(value, pointer, depth + 1)
    const at = locationOf(start, pointer)
    if (pointer !== '') return this.#refuseSyntax(at, `\`${name}\`, which is no constant of the module`)
    return this.#refuse(at, `It must be a constant: \`export const ${this.#name} = { … }\`.`)
  }

  #readEntries({ properties }: ObjectExpression, pointer: string, depth: number): MapEntry[] {
    const entries = new Map<string, MapEntry>()
    for (const property of properties) {
      const start = locationOf(property.start, pointer)
      const syntax = otherProperty(property)
      if (property.type === 'SpreadElement' || syntax !== undefined) {
        this.#refuseSyntax(start, syntax ?? 'a spread')
        continue
      }
      const key = nameOf(property.key)
      if (!this.#accepts(key, start)) continue
      const at = { ...start, pointer: pointerTo(pointer, key) }
      if (entries.has(key)) this.#refuse(at, 'The key occurs twice.')
      entries.set(key, { key, at, value: this.read(property.value, at.pointer, depth + 1) })
    }
    return [...entries.values()]
  }

  /** Tests that a text is not too long, and has no hidden characters. */
  #accepts(text: string, at: Location): boolean {
    if (!this.#hasRoom(text.length, at)) return false
    const hidden = hiddenIn(text.replaceAll(/[\n\t]/g, ' '))
    if (hidden !== undefined) this.#refuse(at, `It ${hidden}.`)
    return hidden === undefined
  }

  /** Counts characters. The first excess is reported, and nothing is read after it. */
  #hasRoom(chars: number, at: Location): boolean {
    const had = this.#chars <= charsMax
    this.#chars += chars
    if (this.#chars <= charsMax) return true
    if (had) this.#refuse(at, `From here on, the export has more than ${charsMax} characters.`)
    return false
  }

  #refuseSyntax(at: Location, syntax: string): SourceNode {
    const rule = `The export \`${this.#name}\` must be a literal, since no code runs to read it`
    return this.#refuse(at, `${rule}; this is ${syntax}.`)
  }

  #refuse(at: Location, message: string): SourceNode {
    this.#list.report('value_invalid', at, message)
    return { kind: 'refused', ...at }
  }
}

/** The name of the syntax of a member that is not a plain name with a value, such as a spread or a getter; else undefined. */
function otherProperty(property: Property | SpreadElement): string | undefined {
  if (property.type === 'SpreadElement') return 'a spread'
  const { computed, kind, method, key } = property
  if (computed) return 'a computed name'
  if (kind !== 'init') return 'a getter or a setter'
  if (method) return 'a function'
  return nameOf(key) === '__proto__' ? 'a prototype' : undefined
}

/** The text of a name that is an identifier or a literal. */
function nameOf(name: Expression): string {
  return name.type === 'Identifier' ? name.name : name.type === 'Literal' ? String(name.value) : ''
}

/** The value of a string, number, boolean or null; undefined for other syntax. esbuild may write booleans as `!0` and `!1`. */
function scalarOf(node: Expression | SpreadElement): string | number | boolean | null | undefined {
  if (node.type === 'TemplateLiteral' && node.expressions.length === 0)
    return node.quasis[0]?.value.cooked ?? undefined
  if (node.type === 'Literal') {
    const { value, raw } = node
    if (typeof value === 'number') return Number.isFinite(value) ? value : undefined
    if (typeof value === 'string' || typeof value === 'boolean') return value
    return raw === 'null' ? null : undefined
  }
  if (node.type !== 'UnaryExpression' || node.argument.type !== 'Literal') return undefined
  const { value } = node.argument
  if (typeof value !== 'number') return undefined
  if (node.operator === '-') return -value
  return node.operator === '!' ? value === 0 : undefined
}
