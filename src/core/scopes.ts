/** Scopes: what a key or token may be narrowed to. Each names an area of the data plane, and reading or writing in it. */

import { Problem } from './problem.ts'

const FORM = /^[a-z][a-z0-9_]*:(read|write)$/

/** `collections:read` of `collection.list`: the area is the plural of the noun, unless the operation names another. */
export function scopeOf(operation: string, area: string | undefined, reads: boolean): string {
  const noun = operation.split('.')[0] ?? ''
  const plural = noun.endsWith('s') ? noun : `${noun}s`
  return `${area ?? plural}:${reads ? 'read' : 'write'}`
}

export const isWriteScope = (scope: string): boolean => scope.endsWith(':write')

/**
 * What names narrow their holder to; undefined where none of them has the form of a scope of ours (`openid`). One that
 * is misspelt still narrows: it opens nothing.
 */
export function narrowing(names: readonly string[]): ReadonlySet<string> | undefined {
  const ours = names.filter((name) => FORM.test(name))
  return ours.length === 0 ? undefined : new Set(ours)
}

/**
 * @param scopes what the caller is narrowed to; undefined where it is not
 * @param needed undefined for what takes no narrowed caller at all
 * @throws Problem `insufficient_scope` with the challenge of RFC 6750 §3.1
 */
export function requireScope(scopes: ReadonlySet<string> | undefined, needed: string | undefined): void {
  if (scopes === undefined || (needed !== undefined && scopes.has(needed))) return
  const challenge = 'Bearer realm="tenon", error="insufficient_scope"'
  if (needed === undefined) {
    const detail = 'This takes a credential that no scope narrows.'
    throw new Problem('insufficient_scope', { detail, headers: { 'www-authenticate': challenge } })
  }
  throw new Problem('insufficient_scope', {
    detail: `This needs the scope ${needed}. The credential has ${[...scopes].join(', ')}.`,
    headers: { 'www-authenticate': `${challenge}, scope="${needed}"` },
    members: { scope: needed },
  })
}
