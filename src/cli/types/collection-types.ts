/** Writes the declared collections of a workspace as the types that `createClient<Collections>()` takes. */

import { hash } from 'node:crypto'
import { comment, memberName, quote, typeOf } from './schema-types.ts'

type Json = Readonly<Record<string, unknown>>

/** A declaration as `GET /v1/schemas/export` returns it. */
export interface DeclaredCollection {
  readonly collection: string
  readonly schema: Json
  readonly references?: readonly {
    readonly field: string
    readonly collection: string
    readonly as?: string
    readonly inverse?: string
  }[]
}

const NOTE =
  '/** The collections of the workspace. Written by `npx tenon types`; run it again after a change of them. */'

/** @returns the file, whose first line says what was written below it: see {@link isEdited} */
export function collectionsFile(declared: readonly DeclaredCollection[]): string {
  const sorted = declared.toSorted((a, b) => (a.collection < b.collection ? -1 : 1))
  const members = sorted.map((one) => collectionMember(one, sorted))
  const body = `${NOTE}\nexport interface Collections {\n${members.join('')}}\n`
  return `${headOf(body)}\n${body}`
}

const headOf = (body: string): string => `// tenon types ${hash('sha256', body).slice(0, 16)}`

/** True if a file is not what {@link collectionsFile} has written: somebody has changed it, or it is another one. */
export function isEdited(text: string): boolean {
  const [head = '', ...lines] = text.split('\n')
  return head !== headOf(lines.join('\n'))
}

function collectionMember(declared: DeclaredCollection, all: readonly DeclaredCollection[]): string {
  const { collection, schema } = declared
  const references = referencesOf(declared, all).map(
    ([name, to, kind]) =>
      `      readonly ${memberName(name)}: { readonly collection: ${quote(to)}; readonly kind: '${kind}' }\n`,
  )
  const fields = typeOf({ type: 'object', ...schema }, { indent: '    ' })
  const list = references.length === 0 ? 'Readonly<Record<never, never>>' : `{\n${references.join('')}    }`
  return `${comment(schema, '  ')}  readonly ${memberName(collection)}: {
    readonly fields: ${fields === ANY ? 'Readonly<Record<string, unknown>>' : fields}
    readonly references: ${list}
  }\n`
}

const ANY = 'unknown'

/** The names that `expand` takes: of the collection's own references, and of those that lead to it. */
function referencesOf(
  { collection, references = [] }: DeclaredCollection,
  all: readonly DeclaredCollection[],
): (readonly [name: string, to: string, kind: 'one' | 'many'])[] {
  const own = references.map(
    ({ field, collection: to, as: name = field.replace(/_id$/, '') }) => [name, to, 'one'] as const,
  )
  const others = all.flatMap(({ collection: from, references: theirs = [] }) =>
    theirs.flatMap(({ collection: to, inverse }) =>
      to === collection && inverse !== undefined ? [[inverse, from, 'many'] as const] : [],
    ),
  )
  return [...own, ...others]
}
