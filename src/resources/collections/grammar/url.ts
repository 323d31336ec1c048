/** The list grammar of the URL (interface.md §4): `field=operator.value` pairs, and groups of them. */

import { Budget } from './budget.ts'
import { readExpression, toKey } from './expression.ts'
import { type Filter, negated } from './filter.ts'
import { readGroup } from './group.ts'
import { refusal, type Source, splitPath } from './text.ts'

const GROUP = /^(not\.)?(or|and)$/

/** Keys that are, or may become, parameters: a field of such a name is written in quotes. */
const RESERVED = /^(not|limit|offset|count|columns|on_conflict|apikey)$|^page\[/

/** All pairs hold; the same field may come more than once. */
export function readFilters(pairs: readonly (readonly [string, string])[]): Filter {
  const budget = new Budget()
  return { kind: 'all', of: pairs.map((pair) => readPair(pair, budget)) }
}

function readPair([key, text]: readonly [string, string], budget: Budget): Filter {
  const source: Source = { code: 'filter_invalid', in: 'query', name: key }
  const [, not, kind] = GROUP.exec(key) ?? []
  if (kind !== undefined) {
    const group = readGroup(kind, text, source, budget)
    return not === undefined ? group : negated(group)
  }
  if (RESERVED.test(key)) {
    const hint = `A field of that name is written in quotes: "${key}"=eq.…`
    throw refusal({ ...source, code: 'unknown_parameter' }, `${key} is not a parameter of this route.`, hint)
  }
  return readExpression(toKey(splitPath(key, source), `${key}=`, source), text, source, budget)
}
