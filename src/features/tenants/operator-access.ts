/** The setting that refuses operators of the installation access to the data of a workspace. */

import Type, { type Static } from 'typebox'
import type { AdminScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'

export const Operators = Type.Object({
  data: Type.Enum(['allowed', 'refused'], {
    description:
      'Access of operators to the data of the workspace. `allowed`: they get data tokens; `refused`: only admins of the workspace and its tenant do, and no operator can change that.',
  }),
})
export type Operators = Static<typeof Operators>

export const OPERATORS_INPUT = Type.Partial(Operators, { additionalProperties: false })

export const OPERATORS_DEFAULTS: Operators = { data: 'allowed' }

/**
 * Those whom a workspace refuses do not end that.
 * @param present as stored
 * @throws Problem `forbidden`
 */
export function requireLift(
  { actor }: AdminScope,
  present: Partial<Operators>,
  asked: Partial<Operators> | undefined,
): void {
  if (actor.role !== 'operator' || present.data !== 'refused' || asked?.data !== 'allowed') return
  throw new Problem('forbidden', {
    detail:
      'Only admins of the workspace, or of its tenant, can change operators.data from refused to allowed.',
  })
}
