/** Knows which secrets an expression reads: each `$secrets.name` in it. */

import type { Expression } from '../expression/expression.ts'
import type { Template } from '../ir.ts'

/** `others` says that `$secrets` stands somewhere without a name behind it. */
interface SecretNames {
  readonly names: readonly string[]
  readonly others: boolean
}

export function secretsIn(expression: Expression): SecretNames {
  const names: string[] = []
  return { others: !collect(expression, names), names }
}

/** Names of the secrets that the expressions in a template read. */
export function secretsOf(template: Template): readonly string[] {
  if ('expression' in template) return secretsIn(template.expression).names
  if ('array' in template) return template.array.flatMap(secretsOf)
  return 'object' in template ? template.object.flatMap(([, value]) => secretsOf(value)) : []
}

/** A tree is plain JSON, so forms of expressions that come later are walked too. Answers whether all are named. */
function collect(tree: unknown, names: string[]): boolean {
  if (Array.isArray(tree)) return tree.map((one) => collect(one, names)).every(Boolean)
  if (typeof tree !== 'object' || tree === null) return true
  const node = tree as { readonly op?: string; readonly of?: unknown; readonly key?: unknown }
  if (node.op === 'literal') return true
  if (isSecrets(node)) return false
  const name = node.op === 'index' && isSecrets(node.of) ? literalOf(node.key) : undefined
  if (name === undefined) return collect(Object.values(node), names)
  names.push(name)
  return true
}

function isSecrets(node: unknown): boolean {
  const { op, name } = (node ?? {}) as { readonly op?: string; readonly name?: string }
  return op === 'variable' && name === 'secrets'
}

function literalOf(key: unknown): string | undefined {
  const { op, value } = (key ?? {}) as { readonly op?: string; readonly value?: unknown }
  return op === 'literal' && typeof value === 'string' ? value : undefined
}
