/** Parses a compiled module. It keeps what stands outside of functions, so that a module of 5 MB takes little memory. */

import { type ImportExpression, Parser, type Program } from 'acorn'

declare module 'acorn' {
  interface Parser {
    parseFunctionBody(node: { body: unknown }, ...rest: unknown[]): void
    parseDynamicImport(node: unknown): ImportExpression
    declareName(): void
    checkLocalExport(): void
  }
}

/** A module, and its imports by specifier. An `import(…)` of a value is none. */
export interface ModuleSyntax {
  readonly program: Program
  readonly imports: readonly ModuleImport[]
}

/** `offset` counts UTF-16 code units in the compiled code. */
export interface ModuleImport {
  readonly specifier: string
  readonly offset: number
}

/** The first error of a module that cannot be parsed. */
export interface SyntaxFault {
  readonly reason: string
  readonly offset: number
}

/**
 * @param code as esbuild compiled it
 * @returns a fault for syntax that acorn does not know, and for nesting that its stack does not hold
 */
export function parseModule(code: string): ModuleSyntax | SyntaxFault {
  try {
    return ModuleParser.read(code)
  } catch (error) {
    // A stack that overflows is a syntax error, too.
    if (!(error instanceof SyntaxError)) throw error
    const offset = 'pos' in error ? Number(error.pos) : 0
    return { reason: error.message.replace(/ \(\d+:\d+\)$/, ''), offset }
  }
}

class ModuleParser extends Parser {
  readonly #dynamic: ImportExpression[] = []

  private constructor(code: string) {
    super({ ecmaVersion: 'latest', sourceType: 'module' }, code)
  }

  static read(code: string): ModuleSyntax {
    const parser = new ModuleParser(code)
    const program = parser.parse()
    return { program, imports: importsOf(program, parser.#dynamic) }
  }

  override parseFunctionBody(node: { body: unknown }, ...rest: unknown[]): void {
    super.parseFunctionBody(node, ...rest)
    node.body = null
  }

  override parseDynamicImport(node: unknown): ImportExpression {
    const found = super.parseDynamicImport(node)
    this.#dynamic.push(found)
    return found
  }

  // esbuild has found names that are declared twice or not at all. Here, the time would grow with the square of their number.
  override declareName(): void {}
  override checkLocalExport(): void {}
}

function importsOf({ body }: Program, dynamic: readonly ImportExpression[]): ModuleImport[] {
  const sources = body.flatMap((statement) => ('source' in statement && statement.source) || [])
  return [...sources, ...dynamic.map(({ source }) => source)].flatMap((source) => {
    if (source.type === 'TemplateLiteral' && source.expressions.length === 0)
      return [{ specifier: source.quasis[0]?.value.cooked ?? '', offset: source.start }]
    if (source.type !== 'Literal' || typeof source.value !== 'string') return []
    return [{ specifier: source.value, offset: source.start }]
  })
}
