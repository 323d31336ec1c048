/** The tool that reads results which were too large to return, and the same for resources. */

import Type from 'typebox'
import { Input, workspaceOperation } from '../../../access/operation-builders.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { READS } from '../../../core/tool-annotations.ts'
import { type BytePage, contentOfPage, pageLength, pageOf } from '../calls/byte-page.ts'
import { readKeptResult, resultUri } from '../calls/kept-results.ts'
import { MCP_LIMITS } from '../limits.ts'
import { argumentsOf, budgetOf, type Tool, type ToolProvider } from '../tool.ts'

const Handle = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'Handle of the result, or its URI `tenon-result://…`.',
})

const readResult = workspaceOperation({
  name: 'mcp_result.read',
  summary: 'Read a part of a result that was too large to return',
  roles: ['service'],
  reads: true,
  input: Input({
    server: Type.String(),
    bytes_max: Type.Integer(),
    handle: Handle,
    offset: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MCP_LIMITS.keptResults.bytesMax,
        description: 'Offset in bytes, such as `next_offset` of the previous part. Default: 0.',
      }),
    ),
  }),
  output: Type.Unsafe<BytePage>(Type.Unknown()),
  // No route: only tools run it.
  http: { method: 'POST', path: '/v1/mcp/results/{handle}', body: '*' },
  run: async (scope, { server, handle, offset = 0, bytes_max }) => {
    const found = await readKeptResult(scope, { server, handle, offset, length: bytes_max })
    // The same for a result of another principal, server or tenant, for an expired one and for none.
    if (found === undefined) throw notFound('result')
    const { tool, mime_type: mimeType, bytes: size, content } = found
    if (offset > 0 && offset >= size)
      throw new Problem('validation_failed', { detail: `offset: the result has ${size} bytes.` })
    const file = { uri: resultUri(handle), name: `Result of ${tool}`, mimeType, size, offset }
    return pageOf(content.subarray(0, pageLength(mimeType, bytes_max)), file)
  },
})

/** The handle in a URI; any other text is no handle. */
const handleIn = (text: string) => /[0-9a-f]{32}/.exec(text)?.[0] ?? text

export const results: ToolProvider = {
  name: 'results',
  operations: [readResult],
  candidates: async () => [{ ...CANDIDATE, scope: CANDIDATE.name, risk: 'read' }],
  input: (tool, { args: { handle, offset }, serverId }) => ({
    server: serverId,
    handle: handleIn(String(handle)),
    ...(offset !== undefined && { offset }),
    bytes_max: budgetOf(tool),
  }),
  toSmallerInput: fewerBytes,
  toToolOutput: (page: BytePage, form) => ({
    output: page,
    failed: false,
    content: contentOfPage(page, {}, form),
  }),
}

/** The input for a smaller page. Characters that JSON escapes take up to six bytes. */
export function fewerBytes(input: Readonly<Record<string, unknown>>, share: number) {
  const max = Math.floor(Number(input['bytes_max']) * share)
  return max < 100 ? undefined : { ...input, bytes_max: max }
}

const CANDIDATE = {
  candidate: 'results:server:read',
  name: 'result_read',
  title: 'Read a large result',
  description:
    'Reads the next part of a result that was too large to return. The tool that made it gave its handle, and it is kept for an hour.',
  input_schema: argumentsOf(readResult, { server: '', bytes_max: 0 }),
  annotations: READS,
  binding: { source: 'results', operation: readResult.name, fixed: {} },
}

/** Reads the results of a tool as resources, under its name and within its limits. */
export const resultReader = ({ name, scope, limits }: Tool): Tool => ({
  ...CANDIDATE,
  name,
  scope,
  reads: true,
  ...(limits && { limits }),
})
