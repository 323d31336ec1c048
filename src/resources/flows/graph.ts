/** A flow as a picture: nodes and edges with their places in the source, and the same as Mermaid text. */

import Type from 'typebox'
import { EDGE_KINDS } from '../../../flows-dsl/graph/graph.ts'
import { Serialized } from '../../core/json.ts'
import { ADMINS } from '../../core/policy.ts'
import { Input, inWorkspace } from '../kinds.ts'
import { FLOWS, flowInvalid, inFlowThread, Source, Ws } from './definitions.ts'

const Node = Type.Object({
  id: Type.String({ description: 'The JSON pointer of the task; `start` and `end` are no tasks.' }),
  kind: Type.String(),
  name: Type.String(),
  label: Type.String({ description: 'One line that says what it will do.' }),
  pointer: Type.Optional(Type.String()),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
  parent: Type.Optional(Type.String({ description: 'The task in which it stands.' })),
  list: Type.Optional(Type.String({ description: 'Which list of tasks of that task it stands in.' })),
})

const Edge = Type.Object({
  from: Type.String(),
  to: Type.String(),
  kind: Type.Enum(EDGE_KINDS),
  label: Type.Optional(Type.String({ description: 'Why it is taken, such as the condition of a case.' })),
})

export const graphFlow = inWorkspace({
  name: 'flow.graph',
  summary: 'Draw a flow: nodes and edges, and Mermaid text; 422 with all faults where it is not valid',
  roles: ADMINS,
  stability: 'preview',
  reads: true,
  input: Input({ ws: Ws, source: Source }),
  output: Type.Object({ mermaid: Type.String(), nodes: Type.Array(Node), edges: Type.Array(Edge) }),
  http: { method: 'POST', path: `${FLOWS}/graph`, body: '*', texts: { 'application/yaml': 'source' } },
  run: async (scope, { source }) => {
    const drawn = await inFlowThread(scope, 'graph', { source })
    if ('faults' in drawn) throw flowInvalid(drawn.faults)
    return new Serialized(drawn.json) as never
  },
})
