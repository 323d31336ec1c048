/** Summary of a compiled flow: functions, secrets, kinds of tasks, expected history events. */

import Type, { type Static } from 'typebox'
import type { FlowIR } from '../../../flows-dsl/ir.ts'

const Names = (description: string) => Type.Array(Type.String(), { description })

export const FlowFacts = Type.Object(
  {
    functions: Names('Functions that the flow calls, and `http`; sorted.'),
    secrets: Names('Secrets that the flow reads; sorted.'),
    kinds: Names('Kinds of the tasks; sorted.'),
    events: Type.Object({
      fixed: Type.Integer({ description: 'Approximate number of Temporal history events if nothing fails.' }),
      per_item: Type.Integer({
        description: 'Further events per item of loops whose length is known only at run time.',
      }),
    }),
    fan_out: Type.Integer({ description: 'Maximum number of tasks that run concurrently.' }),
  },
  { description: 'Facts about the flow from static analysis; present if the flow is valid.' },
)

export function flowSummary({ facts }: FlowIR): Static<typeof FlowFacts> {
  const { functions, secrets = [], kinds = [], events = { fixed: 0, perItem: 0 }, fanOut = 1 } = facts
  return {
    functions: [...functions],
    secrets: [...secrets],
    kinds: [...kinds],
    events: { fixed: events.fixed, per_item: events.perItem },
    fan_out: fanOut,
  }
}
