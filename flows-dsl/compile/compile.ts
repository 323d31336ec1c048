/** Compiles the YAML text of a definition. The only file that reads YAML, and so never part of a workflow. */

import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  Parser,
} from 'yaml'
import {
  type Diagnostic,
  type DiagnosticCode,
  DiagnosticList,
  formatDiagnostics,
} from '../diagnostics/diagnostics.ts'
import { unreachableTasks } from '../graph/reachability.ts'
import type { FlowIR, TaskNode } from '../ir.ts'
import { losesDigits, pointerTo, utf8Length } from '../json.ts'
import { type Catalogue, CompileContext } from './compile-context.ts'
import { compileDefinition } from './definition.ts'
import { type Location, type MapEntry, nodeAt, type RejectedNode, type SourceNode } from './source-nodes.ts'

export type { Catalogue } from './compile-context.ts'

/** Sizes are bytes of UTF-8; depth counts mappings and lists within each other. */
export interface CompileOptions {
  readonly catalogue: Catalogue
  readonly sizeBytesMax?: number
  readonly depthMax?: number
}

/** `definition` maps JSON pointers to source locations (`nodeAt`). */
interface SuccessfulCompilation {
  readonly ir: FlowIR
  readonly definition: SourceNode
  readonly diagnostics: readonly []
  /** Diagnostics of suspicious code that do not prevent publishing. */
  readonly warnings: readonly Diagnostic[]
}

interface FailedCompilation {
  readonly ir: undefined
  readonly definition: undefined
  readonly diagnostics: readonly Diagnostic[]
  readonly warnings: readonly []
}

export type Compiled = SuccessfulCompilation | FailedCompilation

const SIZE_BYTES_MAX = 262_144
const DEPTH_MAX = 64
/** About eight per line; each costs about 10 µs of blocking CPU time. */
const LEXEMES_MAX = 50_000
const SYNTAX_ERRORS_MAX = 20
/** Keys whose texts are expressions without `${ }`. */
const EXPRESSION_KEY = /(?:^|([{,])|\s)\s*(as|from|if|in|until|when|exceptWhen|while):\s+([^\s'"].*)$/
const TEXT = "Write it as text, in quotes: '…'."
const QUOTED_CHARS_MAX = 100
const COLLECTIONS: readonly string[] = ['block-map', 'block-seq', 'flow-collection']

/**
 * Compiles a definition (OWS DSL 1.0.0 to 1.0.3, YAML 1.2 core).
 * @returns the compiled flow with its warnings, or its diagnostics (the first 100 of either) in source order; never throws
 * @example
 * ```ts
 * const source = 'document: { dsl: 1.0.3, namespace: default, name: empty, version: 1.0.0 }'
 * const { ir, diagnostics } = compile(source, { catalogue: {} })
 * if (ir === undefined) diagnostics.map(({ line, code }) => `${line}: ${code}`) // ['1: missing_key']
 * ```
 */
export function compile(source: string, options: CompileOptions): Compiled {
  const context = new CompileContext(options.catalogue)
  const root = checkSize(source, options, context)
    ? new SourceReader(source, options, context).read()
    : undefined
  const ir = root && compileDefinition(root, context)
  if (root !== undefined && ir !== undefined && context.diagnostics.length === 0)
    return {
      ir,
      definition: root,
      diagnostics: [],
      warnings: formatDiagnostics([...context.warnings.diagnostics, ...unreachableIn(ir, root)], source),
    }
  return {
    ir: undefined,
    definition: undefined,
    diagnostics: formatDiagnostics(context.diagnostics, source),
    warnings: [],
  }
}

function checkSize(
  source: string,
  { sizeBytesMax = SIZE_BYTES_MAX }: CompileOptions,
  context: CompileContext,
): boolean {
  // A text has at least as many bytes as UTF-16 units, so the large ones need no counting.
  if (source.length <= sizeBytesMax && utf8Length(source) <= sizeBytesMax) return true
  const start = { line: 1, column: 1, pointer: '' }
  context.report('source_too_large', start, `The definition is larger than ${sizeBytesMax} bytes.`)
  return false
}

/** Parses one source: tokens, then documents, then source nodes. */
class SourceReader {
  readonly #source: string
  readonly #context: CompileContext
  readonly #depthMax: number
  readonly #lines = new LineCounter()
  #syntaxErrors = 0

  constructor(source: string, { depthMax = DEPTH_MAX }: CompileOptions, context: CompileContext) {
    this.#source = source
    this.#depthMax = depthMax
    this.#context = context
    // The parser misses the line breaks within some invalid scalars, so they are counted here.
    for (let start = 0; start >= 0; start = source.indexOf('\n', start) + 1 || -1)
      this.#lines.addNewLine(start)
  }

  /** The parser keeps a stack of its own. Checking it rejects deep nesting before any recursion over the tokens. */
  #tokens(): CST.Token[] | undefined {
    const parser = new Parser()
    const tokens: CST.Token[] = []
    let lexemes = 0
    for (const lexeme of new Lexer().lex(this.#source)) {
      tokens.push(...parser.next(lexeme))
      lexemes += 1
      if (lexemes > LEXEMES_MAX) {
        const message = `The definition has more than ${LEXEMES_MAX} tokens. Put long lists into the input of the flow.`
        return this.#context.report('source_too_large', this.#locationAt(parser.offset, ''), message)
      }
      if (parser.stack.length <= this.#depthMax || depthOf(parser.stack) <= this.#depthMax) continue
      const at = this.#locationAt(parser.offset, '')
      const message = `Mappings and lists of the definition are nested more than ${this.#depthMax} levels deep, which is about ${Math.floor(this.#depthMax / 3)} tasks within each other.`
      return this.#context.report(
        'nesting_too_deep',
        at,
        message,
        'Declare deep parts as functions under `use.functions`.',
      )
    }
    tokens.push(...parser.end())
    return tokens
  }

  /** The source nodes of the definition; undefined if the text is not one valid YAML document. */
  read(): SourceNode | undefined {
    const tokens = this.#tokens()
    const [first, second] = tokens === undefined ? [] : this.#documents(tokens)
    if (first === undefined) return undefined
    if (second !== undefined) {
      const message = 'A definition must be one YAML document.'
      return this.#context.report('yaml_multiple_documents', this.#locationAt(second.range[0], ''), message)
    }
    if (first.directives?.yaml.explicit) {
      const message = 'The version of YAML is 1.2 and cannot be chosen.'
      return this.#context.report('yaml_directive_refused', this.#locationAt(0, ''), message)
    }
    return this.#toSourceNode(first.contents, '', { line: 1, column: 1, pointer: '' })
  }

  /** At most two documents, and none if the YAML is invalid. */
  #documents(tokens: readonly CST.Token[]): Document.Parsed[] {
    const composer = new Composer({ uniqueKeys: false, prettyErrors: false })
    // Errors of the library carry stack traces; a bomb of them would cost seconds.
    Object.assign(composer, {
      onError: (at: unknown, _code: string, message: string) => this.#reportSyntaxError(at, message),
    })
    const documents: Document.Parsed[] = []
    try {
      for (const document of composer.compose(tokens, true, this.#source.length)) {
        if (documents.push(document as Document.Parsed) === 2) break
      }
    } catch (error) {
      if (!(error instanceof TooManyDiagnostics)) throw error
    }
    return this.#context.diagnostics.length === 0 ? documents : []
  }

  /** The library catches errors thrown here and reports them, so the limit is checked first. */
  #reportSyntaxError(at: unknown, message: string): void {
    this.#syntaxErrors += 1
    if (this.#syntaxErrors > SYNTAX_ERRORS_MAX) throw new TooManyDiagnostics()
    const location = this.#locationAt(offsetOf(at), '')
    // The parser stumbles over one mistake several times.
    if (this.#context.diagnostics.some(({ line }) => line === location.line)) return
    const line = this.#source.slice(this.#lines.lineStarts[location.line - 1]).split('\n', 1)[0] ?? ''
    const hint = message.startsWith('Tabs') ? 'Indent with spaces.' : quotesHint(line)
    this.#context.report('yaml_syntax', location, `${message.replace(/\.$/, '')}.`, hint)
  }

  #toSourceNode(node: unknown, pointer: string, fallback: Location): SourceNode {
    const location =
      isNode(node) && node.range ? this.#locationAt(node.range[0], pointer) : { ...fallback, pointer }
    if (isAlias(node) || (isNode(node) && 'anchor' in node && node.anchor !== undefined)) {
      return this.#reject('yaml_alias_refused', location, 'Anchors and aliases are not allowed.')
    }
    if (isMap(node))
      return { kind: 'map', ...location, entries: this.#entries(node.items, pointer, location) }
    if (isSeq(node)) {
      const items = node.items.map((item, index) =>
        this.#toSourceNode(item, pointerTo(pointer, index), location),
      )
      return { kind: 'list', ...location, items }
    }
    return this.#scalar(node, location)
  }

  #entries(items: readonly unknown[], pointer: string, location: Location): MapEntry[] {
    const seen = new Set<string>()
    const entries: MapEntry[] = []
    for (const item of items) {
      const key = isPair(item) ? item.key : undefined
      const at = isNode(key) && key.range ? this.#locationAt(key.range[0], pointer) : location
      const name = isScalar(key) && key.anchor === undefined ? key.value : undefined
      if (typeof name !== 'string') {
        this.#reportKey(key, at)
        continue
      }
      const inner = pointerTo(pointer, name)
      const here = { ...at, pointer: inner }
      const value = this.#toSourceNode(isPair(item) ? item.value : null, inner, here)
      if (seen.has(name))
        this.#context.report('yaml_duplicate_key', here, `The key \`${name}\` occurs twice.`)
      else entries.push({ key: name, at: here, value })
      seen.add(name)
    }
    return entries
  }

  #reportKey(key: unknown, at: Location): void {
    if (isAlias(key) || (isScalar(key) && key.anchor !== undefined)) {
      this.#context.report('yaml_alias_refused', at, 'Anchors and aliases are not allowed.')
    } else {
      const hint = isScalar(key) ? `Put it in quotes: '${key.source ?? String(key.value)}'.` : undefined
      this.#context.report('yaml_key_not_string', at, 'A key must be a string.', hint)
    }
  }

  #scalar(node: unknown, location: Location): SourceNode {
    const value = isScalar(node) ? node.value : null
    const locationOf = (offset: number) =>
      this.#locationWithin(node as Node | null, String(value), offset, location)
    if (typeof value === 'number' && isScalar(node) && losesDigits(node.source ?? String(value)))
      return this.#reject(
        'number_unsafe',
        location,
        'The integer is beyond 2^53 and would lose digits.',
        TEXT,
      )
    const isNumber = typeof value === 'number' && Number.isFinite(value)
    if (value === null || typeof value === 'string' || typeof value === 'boolean' || isNumber)
      return { kind: 'scalar', ...location, value, locationOf }
    return this.#reject('yaml_value_not_json', location, 'Only JSON values are allowed.')
  }

  #reject(code: DiagnosticCode, location: Location, message: string, hint?: string): RejectedNode {
    this.#context.report(code, location, message, hint)
    return { kind: 'refused', ...location }
  }

  /** The location of a character. Exact if the source contains the value verbatim, without escapes or folding. */
  #locationWithin(node: Node | null, value: string, offset: number, location: Location): Location {
    if (!node?.range) return location
    const start = this.#source.slice(node.range[0], node.range[1]).indexOf(value)
    return start < 0 ? location : this.#locationAt(node.range[0] + start + offset, location.pointer)
  }

  #locationAt(offset: number, pointer: string): Location {
    const { line, col } = this.#lines.linePos(Math.max(0, offset))
    return { line: Math.max(1, line), column: Math.max(1, col), pointer }
  }
}

/** A hint to quote the expression in a line that is not valid YAML. */
function quotesHint(line: string): string | undefined {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the author should write
  if (line.includes('${')) return "Put expressions in quotes: '${ … }'."
  const [, isWithin, key, text = ''] = EXPRESSION_KEY.exec(line) ?? []
  if (key === undefined) return undefined
  const isQuotable = isWithin === undefined && text.length <= QUOTED_CHARS_MAX && !/['"]/.test(text)
  return `Put the expression in quotes: ${key}: '${isQuotable ? text.trim() : '…'}'.`
}

/** Counts the collections on the stack of the parser, which also holds documents and scalars. */
function depthOf(stack: readonly CST.Token[]): number {
  return stack.filter(({ type }) => COLLECTIONS.includes(type)).length
}

/** Stops composing a source with too many errors. */
class TooManyDiagnostics extends Error {}

/** Errors of the composer point at an offset, a range, or a token. */
function offsetOf(at: unknown): number {
  if (typeof at === 'number') return at
  if (Array.isArray(at)) return Number(at[0])
  return typeof at === 'object' && at !== null && 'offset' in at ? Number(at.offset) : 0
}

/** @param definition the source of the flow @returns a warning for each unreachable task */
function unreachableIn(ir: FlowIR, definition: SourceNode): readonly Diagnostic[] {
  const list = new DiagnosticList()
  for (const { pointer, name, before } of unreachableTasks(ir)) {
    const { line, column } = nodeAt(definition, pointer)?.at ?? definition
    const message = `The task \`${name}\` is unreachable: \`${before.name}\` before it ${reasonOf(before)}.`
    const hint = 'Name the task in a `then`, or remove it.'
    list.report('task_unreachable', { line, column, pointer }, message, hint)
  }
  return list.diagnostics
}

/** The reason why a task does not continue with the next one. */
function reasonOf({ kind, next }: TaskNode): string {
  if (kind === 'raise') return 'always raises an error'
  if (kind === 'switch') return 'continues elsewhere in all cases'
  return next === undefined || next === 'continue' ? 'never continues' : `has \`then: ${next}\``
}
