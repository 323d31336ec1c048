/** Reads the string literals of source files, for checks of the texts in them. */

import { readdir, readFile } from 'node:fs/promises'
import { type AnyNode, parse } from 'acorn'
import { transform } from 'esbuild'
import type { Text } from './prose.ts'

interface Node {
  readonly type: string
  readonly [member: string]: unknown
}

/** The literals below a node; a template has `…` for each of its expressions, whose own literals follow. Descriptions of schemas are texts of the API. */
function* literalsIn(value: unknown): Generator<string> {
  if (Array.isArray(value)) for (const item of value) yield* literalsIn(item)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return
  const node = value as AnyNode
  if (node.type === 'Literal' && typeof node.value === 'string') yield node.value
  if (node.type === 'TemplateLiteral') yield node.quasis.map(({ value: { cooked } }) => cooked).join('…')
  if (node.type === 'Property' && Object(node.key).name === 'description') return
  for (const [name, member] of Object.entries(node)) if (name !== 'source') yield* literalsIn(member)
}

/** The values of properties and variables with one of the names, such as `detail`. */
function* propertiesIn(value: unknown, names: readonly string[]): Generator<unknown> {
  if (Array.isArray(value)) for (const item of value) yield* propertiesIn(item, names)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return
  const node = value as Node
  const key = Object(node['key']).name
  if (node.type === 'Property' && names.includes(key)) yield node['value']
  if (node.type === 'VariableDeclarator' && names.includes(Object(node['id']).name)) yield node['init']
  for (const member of Object.values(node)) yield* propertiesIn(member, names)
}

/**
 * The literals of the TypeScript files below a folder.
 * @param pattern matches the paths of the files, from the folder
 * @param properties only literals within values of properties and variables with these names; default: all literals
 */
export async function sourceTexts(
  folder: string,
  pattern: RegExp,
  properties?: readonly string[],
): Promise<Text[]> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => pattern.test(name)).toSorted()
  const texts = await Promise.all(
    names.map(async (name) => {
      const source = await readFile(`${folder}/${name}`, 'utf8')
      const { code } = await transform(source, { loader: 'ts', charset: 'utf8' })
      const program = parse(code, { ecmaVersion: 'latest', sourceType: 'module' })
      const roots = properties === undefined ? [program] : [...propertiesIn(program, properties)]
      return [...literalsIn(roots)].map((text) => ({ at: `${folder}/${name}`, text }))
    }),
  )
  return texts.flat()
}
