/** Summary of a compiled flow: functions, secrets, kinds of tasks, expected history events. */

import Type, { type Static } from 'typebox'
import type { FlowIR } from '../../../flows-dsl/ir.ts'

const Names = (description: string) => Type.Array(Type.String(), { description })

export const FlowFacts = Type.Object(
  {
    functions: Names('Functions that it calls, and `http`; sorted.'),
    secrets: Names('Secrets that it reads; sorted.'),
    kinds: Names('Kinds of its tasks; sorted.'),
    events: Type.Object({
      fixed: Type.Integer({ description: 'Events in the history of Temporal where nothing fails, about.' }),
      per_item: Type.Integer({
        description: 'As many again for each item of loops over what only a run knows.',
      }),
    }),
    fan_out: Type.Integer({ description: 'How many tasks go on at the same time, at most.' }),
  },
  { description: 'What can be said of the flow without running it; there where it is valid.' },
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
