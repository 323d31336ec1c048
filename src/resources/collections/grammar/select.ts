/** Which fields of a document are shown. `id` always is. */

import { LIMITS } from '../../../core/limits.ts'
import { commaParts, readPath, refusal, type Source } from './text.ts'

/** A tree of names; an empty one stands for all that is below. */
export type Selection = ReadonlyMap<string, Selection>
type Growing = Map<string, Growing>

/**
 * `a,b.c`, or a list of such paths.
 * @returns undefined where everything is shown: nothing was asked for, or `*`
 */
export function readSelection(
  asked: string | readonly string[] | undefined,
  place: Source['in'],
): Selection | undefined {
  if (asked === undefined) return undefined
  const source: Source = { code: 'select_invalid', in: place, name: 'select' }
  const parts = typeof asked === 'string' ? commaParts(asked) : asked
  if (parts.length > LIMITS.selectFieldsMax)
    throw refusal(source, `At most ${LIMITS.selectFieldsMax} fields are selected.`)
  if (parts.includes('*')) return undefined
  const tree: Growing = new Map()
  for (const part of parts) grow(tree, readPath(part, source))
  return tree
}

/** `a,b`: names of fields that are taken away. */
export function readUnset(text: string | undefined): string[] {
  if (text === undefined) return []
  const source: Source = { code: 'validation_failed', in: 'query', name: 'unset' }
  const parts = commaParts(text)
  if (parts.length > LIMITS.selectFieldsMax)
    throw refusal(source, `At most ${LIMITS.selectFieldsMax} fields are taken away.`)
  return parts.map((part) => {
    const [name, ...below] = readPath(part, source)
    if (below.length === 0 && name !== 'id' && !name.startsWith('_')) return name
    throw refusal(source, 'It takes fields of the document itself, not of what is inside them.')
  })
}

/** `a` beside `a.b` shows all of a, whichever comes first. */
function grow(tree: Growing, [name, ...rest]: readonly string[]): void {
  if (name === undefined) {
    tree.clear()
    return
  }
  const known = tree.get(name)
  if (known?.size === 0) return
  const below = known ?? new Map()
  tree.set(name, below)
  grow(below, rest)
}

type Members = Record<string, unknown>

/** The selected part, in the shape of the whole. What is not there, or is not an object, is left out. */
export function project<T extends { id: string }>(
  document: T,
  selection: Selection | undefined,
): { id: string } & Members {
  if (selection === undefined) return document as { id: string } & Members
  return { id: document.id, ...cut(document, selection) }
}

function cut(value: object, selection: Selection): Members {
  // A field may be called __proto__: it is one like any other here.
  const shown: Members = Object.create(null)
  for (const [name, below] of selection) {
    if (!Object.hasOwn(value, name)) continue
    const member = (value as Members)[name]
    if (below.size === 0) shown[name] = member
    else if (typeof member === 'object' && member !== null && !Array.isArray(member))
      shown[name] = cut(member, below)
  }
  return shown
}
