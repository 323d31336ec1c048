/** Knows the keywords of JSON Schema 2020-12 for arrays. */

import { spend } from '../expression/budget.ts'
import { compare } from '../expression/values.ts'
import { fieldOf } from '../json.ts'
import { counted, fail, type Place, type Rule } from './rule.ts'

export const ARRAYS: Readonly<Record<string, Rule>> = {
  prefixItems: (operand, place) => {
    const { value } = place
    if (!Array.isArray(operand) || !Array.isArray(value)) return
    for (const [index, schema] of operand.slice(0, value.length).entries())
      place.check(schema, place.below(index, value[index] ?? null))
  },
  items: (operand, place, schema) => {
    const { value } = place
    if (!Array.isArray(value)) return
    const prefix = fieldOf(schema, 'prefixItems')
    const first = Array.isArray(prefix) ? prefix.length : 0
    for (let index = first; index < value.length; index++)
      place.check(operand, place.below(index, value[index] ?? null))
  },
  contains: (operand, place, schema) => {
    const { value } = place
    if (!Array.isArray(value)) return
    const least = Number(fieldOf(schema, 'minContains') ?? 1)
    const most = Number(fieldOf(schema, 'maxContains') ?? Number.POSITIVE_INFINITY)
    const count = value.filter((item, index) => place.passes(operand, place.below(index, item))).length
    if (count < least) fail(place, `must contain at least ${counted(least, 'such item')}`)
    if (count > most) fail(place, `must contain at most ${counted(most, 'such item')}`)
  },
  minItems: (operand, place) => {
    if (Array.isArray(place.value) && place.value.length < Number(operand))
      fail(place, `must have at least ${counted(operand, 'item')}`)
  },
  maxItems: (operand, place) => {
    if (Array.isArray(place.value) && place.value.length > Number(operand))
      fail(place, `must have at most ${counted(operand, 'item')}`)
  },
  uniqueItems: (operand, place) => {
    if (operand === true && hasTwins(place)) fail(place, 'must not have the same item twice')
  },
}

/** Sorted, equal items stand together. */
function hasTwins({ value, budget }: Place): boolean {
  if (!Array.isArray(value)) return false
  spend(budget, value.length)
  const sorted = [...value].sort((a, b) => compare(a, b, budget))
  return sorted.some((item, index) => index > 0 && compare(item, sorted[index - 1] ?? null, budget) === 0)
}
