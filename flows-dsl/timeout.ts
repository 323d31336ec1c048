/** Knows how long a flow or a task may last (OWS 1.0 "Timeout"). */

import { type Checker, SCOPES } from './checker.ts'
import { durationIn } from './duration.ts'
import type { Timeout } from './ir.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap, type LocatedScalar } from './located.ts'

/** The key `timeout`: the name of one that `use.timeouts` declares, or the timeout itself. */
export function compileTimeout(
  map: LocatedMap,
  scope: readonly string[],
  checker: Checker,
): Timeout | undefined {
  const given = entryOf(map, 'timeout')?.value
  if (given === undefined) return undefined
  if (!isText(given)) return compileTimeoutPolicy(given, scope, checker)
  const compile = ({ value }: LocatedEntry) => compileTimeoutPolicy(value, scope, checker)
  return checker.declared.find('timeouts', given, compile, scope)
}

/** The limit of the flow as a whole, which is known before it runs. */
export function compileFlowTimeout(flow: LocatedMap, checker: Checker): number | undefined {
  const timeout = compileTimeout(flow, SCOPES.flowInput, checker)
  if (timeout === undefined || typeof timeout === 'number') return timeout
  const at = entryOf(flow, 'timeout')?.value ?? flow
  return checker.fault('unsupported_feature', at, 'The timeout of a flow cannot be an expression.')
}

/** `{after: duration}`. @param scope the variables that an expression may name */
export function compileTimeoutPolicy(
  given: Located,
  scope: readonly string[],
  checker: Checker,
): Timeout | undefined {
  const map = checker.map(given, 'A timeout')
  if (map === undefined) return undefined
  checker.keys(map, 'a timeout', ['after'])
  const after = checker.required(map, 'A timeout', 'after')
  if (after === undefined || !isText(after) || !after.value.includes('${')) {
    return after && durationIn(after, 'A timeout', 1, checker)
  }
  const template = checker.template(after, scope)
  return template !== undefined && 'expression' in template ? template : undefined
}

function isText(value: Located): value is LocatedScalar & { readonly value: string } {
  return value.kind === 'scalar' && typeof value.value === 'string'
}
