/** Compiles flows in this process, with the catalogue and the limits of the API. */

import { graphOf } from '../../../flows-dsl/graph/build-graph.ts'
import { mermaidOf } from '../../../flows-dsl/graph/mermaid.ts'
import { compileFlow } from '../../features/flows/definitions.ts'

export { compileFlow } from '../../features/flows/definitions.ts'

export const localCompiler = {
  async validate(source: string) {
    const { diagnostics, warnings } = compileFlow(source)
    return { diagnostics, warnings }
  },
  async graph(source: string) {
    const { ir, definition, diagnostics } = compileFlow(source)
    if (ir === undefined) return diagnostics
    const graph = graphOf(ir, definition)
    return { mermaid: mermaidOf(graph), ...graph }
  },
}
