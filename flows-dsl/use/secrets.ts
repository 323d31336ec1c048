/** Knows which secrets a definition declares, and what its expressions read of them (OWS 1.0 "Secret"). */

import type { Checker } from '../checker.ts'
import type { Expression } from '../expression/expression.ts'
import { entryOf, type LocatedMap, type LocatedScalar, type Place } from '../located.ts'

const NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,62}$/

/** The names of `use.secrets`. */
export function compileSecrets(use: LocatedMap, checker: Checker): readonly string[] {
  const list = entryOf(use, 'secrets')?.value
  if (list === undefined) return []
  if (list.kind !== 'list') {
    checker.fault('wrong_type', list, '`secrets` must be a list of names.')
    return []
  }
  const names = new Set<string>()
  for (const item of list.items) {
    const name = checker.text(item, 'The name of a secret')
    if (name === undefined) continue
    if (!NAME.test(name)) {
      checker.fault('value_invalid', item, `\`${name}\` cannot be the name of a secret.`)
    } else if (names.has(name)) {
      checker.fault('value_invalid', item, `The secret \`${name}\` is declared twice.`)
    }
    names.add(name)
  }
  return [...names]
}

/** The name of a secret that stands for itself, as in `basic: {use: name}`. */
export function secretNamed(reference: LocatedScalar, checker: Checker): string | undefined {
  const name = String(reference.value)
  return checkSecret(name, reference, checker) ? name : undefined
}

/**
 * Checks every `$secrets.name` of an expression. One that is not read by its name could be any, so that nobody could
 * say which secrets a flow reads; it is a fault.
 */
export function checkSecrets(expression: Expression, at: Place, checker: Checker): boolean {
  const names: string[] = []
  const named = collect(expression, names)
  if (!named) {
    const hint = 'Write $secrets.name; the name must be known before the flow runs.'
    checker.fault('secret_not_named', at, 'A secret is read by its name alone.', hint)
  }
  return names.map((name) => checkSecret(name, at, checker)).every(Boolean) && named
}

function checkSecret(name: string, at: Place, checker: Checker): boolean {
  const declared = checker.use?.secrets ?? []
  if (declared.includes(name)) {
    checker.secrets.add(name)
    return true
  }
  const message = `The secret \`${name}\` is not declared in \`use.secrets\`.`
  checker.unknown('unknown_reference', at, message, name, declared)
  return false
}

/** A tree is plain JSON, so forms of expressions that come later are walked too. Answers whether all are named. */
function collect(tree: unknown, names: string[]): boolean {
  if (Array.isArray(tree)) return tree.map((one) => collect(one, names)).every(Boolean)
  if (typeof tree !== 'object' || tree === null) return true
  const node = tree as { readonly op?: string; readonly of?: unknown; readonly key?: unknown }
  if (node.op === 'literal') return true
  if (isSecrets(node)) return false
  const name = node.op === 'index' && isSecrets(node.of) ? literalOf(node.key) : undefined
  if (name === undefined) {
    return Object.values(node)
      .map((one) => collect(one, names))
      .every(Boolean)
  }
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
