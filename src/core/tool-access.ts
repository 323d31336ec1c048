/** The scopes of tools of MCP servers, and the comparison of the tools of a scope with those that were consented to. */

import { type Annotations, effectOf, isStronger } from './tool-annotations.ts'

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

/** The same tool under the same scope in another version, perhaps with another name or effect. */
export const counterpartOf = <T extends ScopedTool>(tool: ScopedTool, tools: readonly T[]): T | undefined =>
  tools.find(({ scope, candidate }) => scope === tool.scope && candidate === tool.candidate)

/**
 * True if a consent to `consented` covers a tool: its scope included it then, with at least the effect that it has now.
 * @param consented the tools of the version that the user consented to
 */
export function isCovered(tool: ScopedTool, consented: readonly ScopedTool[]): boolean {
  const was = counterpartOf(tool, consented)
  return was !== undefined && !isStronger(tool.annotations, was.annotations)
}
