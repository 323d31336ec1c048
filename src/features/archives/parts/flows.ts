/** The flows of a workspace in an archive, and behind them their versions. Triggers start nothing until somebody resumes them. */

import {
  allFlows,
  allFlowVersions,
  FlowLine,
  FlowVersionLine,
  restoreFlow,
  restoreFlowVersion,
} from '../../flows/flows-transfer.ts'
import { versionsOf } from '../../version-aliases.ts'
import { jsonOf } from '../format/layout.ts'
import { linesOf, type Part } from '../part.ts'
import { pausedTriggers } from '../paused-triggers.ts'

export const FLOWS: Part = {
  members: {
    flows: linesOf(jsonOf(FlowLine), {
      count: 'flows',
      check: (checks, { id, latest_version: latest, aliases }, member) => {
        checks.next('flows', id, member)
        const used = [...(latest === 0 ? [] : [latest]), ...versionsOf(aliases)]
        checks.flows.declare(id, { latest, used }, member)
      },
      store: ({ structure }, flow) => restoreFlow(structure, flow),
    }),
    'flow-versions': linesOf(jsonOf(FlowVersionLine), {
      count: 'flow_versions',
      check: (checks, { flow_id, version }, member) => checks.flows.add(flow_id, version, member),
      store: async (into, version) => {
        const declaredAs = pausedTriggers(into, `the flow ${version.flow_id}`, version.flow_id)
        for (const webhook of await restoreFlowVersion(into.structure, version, declaredAs))
          into.missing(`${webhook}: rotate its secret, and give secret and URL to the sender`)
      },
    }),
  },

  async *write(writer, { structure }) {
    yield* writer.lines('flows', allFlows(structure), 'flows')
    const versions = async function* () {
      for await (const { id } of allFlows(structure)) yield* allFlowVersions(structure, id)
    }
    yield* writer.lines('flow-versions', versions(), 'flow_versions')
  },
}
