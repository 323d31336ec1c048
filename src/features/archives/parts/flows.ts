/** The flows of a workspace in an archive, and behind them their versions. Triggers start nothing until somebody resumes them. */

import {
  allFlows,
  allFlowVersions,
  FlowLine,
  FlowVersionLine,
  restoreFlow,
  restoreFlowVersion,
} from '../../flows/flows-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { readLines } from '../format/reader.ts'
import { counted, inMember, type Part } from '../part.ts'
import { pausedTriggers } from '../paused-triggers.ts'

const readFlow = jsonOf(FlowLine)
const readVersion = jsonOf(FlowVersionLine)

export const FLOWS: Part = {
  folders: ['flows', 'flow-versions'],

  async *write(writer, { structure }) {
    yield* writer.lines('flows', allFlows(structure))
    const versions = async function* () {
      for await (const { id } of allFlows(structure)) {
        writer.count('flows')
        for await (const version of allFlowVersions(structure, id)) {
          writer.count('flow_versions')
          yield version
        }
      }
    }
    yield* writer.lines('flow-versions', versions())
  },

  async read(into, member) {
    const { structure, counts, missing } = into
    for await (const line of readLines(member)) {
      if (member.folder === 'flows') {
        const flow = readFlow(line, member.name)
        await inMember(into, member, () => restoreFlow(structure, flow))
        counted(counts, 'flows')
      } else {
        const version = readVersion(line, member.name)
        const declaredAs = pausedTriggers(into, `the flow ${version.flow_id}`, version.flow_id)
        const webhooks = await inMember(into, member, () =>
          restoreFlowVersion(structure, version, declaredAs),
        )
        for (const webhook of webhooks)
          missing(`${webhook}: rotate its secret, and give secret and URL to the sender`)
        counted(counts, 'flow_versions')
      }
    }
  },
}
