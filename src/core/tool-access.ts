/** Compares the tools of an MCP server scope between two versions, and describes the effect of a tool. */

/** The hints of MCP about a tool (specification, "Tool Annotations"). */
export interface Annotations {
  readonly readOnlyHint: boolean
  readonly destructiveHint: boolean
  readonly idempotentHint: boolean
  readonly openWorldHint: boolean
}

/** The hints of a tool that changes nothing, and reaches no system outside the platform. */
export const READ_ONLY: Annotations = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
}

/** Adds something; a repetition adds it again. */
export const INSERTS: Annotations = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: false,
  openWorldHint: false,
}
/** Replaces or deletes something; a repetition changes nothing more. */
export const CHANGES: Annotations = { ...INSERTS, destructiveHint: true, idempotentHint: true }

/** The part of a published tool that consent is given to. */
export interface ScopedTool {
  readonly name: string
  readonly title: string
  /** Last part of the scope. */
  readonly scope: string
  /** The stable identity of the tool, `<source>:<thing>:<verb>`; its name may change. */
  readonly candidate: string
  readonly annotations: Annotations
  /** The title of its group, if it has one. */
  readonly groupTitle?: string | null
}

/** Weakest first. */
export const EFFECTS = ['reads', 'adds', 'changes'] as const
export type Effect = (typeof EFFECTS)[number]

const WORDS: Readonly<Record<Effect, string>> = {
  reads: 'reads data',
  adds: 'adds data',
  changes: 'changes or deletes data',
}

/** A tool whose hints contradict each other counts as the stronger of the two. */
export function effectOf({ readOnlyHint, destructiveHint }: Annotations): Effect {
  if (destructiveHint) return 'changes'
  return readOnlyHint ? 'reads' : 'adds'
}

/** @returns for example `changes or deletes data, and may reach other systems` */
export function effectInWords(annotations: Annotations): string {
  const words = WORDS[effectOf(annotations)]
  return annotations.openWorldHint ? `${words}, and may reach other systems` : words
}

/** The full scope of a tool, `mcp:<slug>:<scope>`. The slug of a server never changes. */
export const scopeOf = (slug: string, { scope }: Pick<ScopedTool, 'scope'>) => `mcp:${slug}:${scope}`

/** Scopes of tools by the umbrella scope that stands for them. */
export type Umbrellas = ReadonlyMap<string, readonly string[]>

export const isUmbrella = (scope: string): boolean => scope.includes('/')

/**
 * Scopes that stand for many, `mcp:<slug>/read` and `mcp:<slug>/write`: those of all tools that only read, and all others. A name of
 * a tool's scope has no slash. What they stand for is fixed by the version of the server that a token names.
 * @returns the scopes by the one that stands for them, without those that would stand for none
 */
export function umbrellasOf(slug: string, tools: readonly ScopedTool[]): Umbrellas {
  const byScope = Map.groupBy(tools, (tool) => scopeOf(slug, tool))
  const onlyReads = (scope: string) =>
    byScope.get(scope)?.every(({ annotations }) => effectOf(annotations) === 'reads') === true
  return Map.groupBy(byScope.keys(), (scope) => `mcp:${slug}/${onlyReads(scope) ? 'read' : 'write'}`)
}

/** The scopes of tools that scopes stand for: umbrellas are replaced. */
export const expandScopes = (scopes: Iterable<string>, umbrellas: Umbrellas): ReadonlySet<string> =>
  new Set([...scopes].flatMap((scope) => umbrellas.get(scope) ?? [scope]))

const isStronger = (tool: ScopedTool, was: ScopedTool): boolean =>
  EFFECTS.indexOf(effectOf(tool.annotations)) > EFFECTS.indexOf(effectOf(was.annotations)) ||
  (tool.annotations.openWorldHint && !was.annotations.openWorldHint)

/** The same tool under the same scope in another version, perhaps with another name or effect. */
export const counterpartOf = <T extends ScopedTool>(tool: ScopedTool, tools: readonly T[]): T | undefined =>
  tools.find(({ scope, candidate }) => scope === tool.scope && candidate === tool.candidate)

/**
 * True if a consent to `consented` covers a tool: its scope included it then, with at least the effect that it has now.
 * @param consented the tools of the version that the user consented to
 */
export function isCovered(tool: ScopedTool, consented: readonly ScopedTool[]): boolean {
  const was = counterpartOf(tool, consented)
  return was !== undefined && !isStronger(tool, was)
}
