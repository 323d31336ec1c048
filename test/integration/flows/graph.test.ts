/** Graph of a flow through the API, from JSON and from YAML. */

import { beforeAll, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace

beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const SOURCE = `document: { dsl: '1.0.3', namespace: test, name: picture, version: '1.0.0' }
do:
  - size:
      switch: [{ large: { when: '\${ .total > 9 }', then: review } }, { small: { then: end } }]
  - review:
      do: [{ ask: { wait: PT1S } }]
`

test('valid flow as JSON or YAML: the same nodes, edges and Mermaid text', async () => {
  const caller = { as: workspace.operator }
  const json = await call('POST', `${workspace.flows}/graph`, { ...caller, body: { source: SOURCE } })
  const headers = { 'content-type': 'application/yaml' }
  const yaml = await call('POST', `${workspace.flows}/graph`, { ...caller, body: SOURCE, headers })
  expect([json.status, yaml.body]).toEqual([200, json.body])
  expect(json.body.nodes).toContainEqual({
    id: '/do/1/review/do/0/ask',
    kind: 'wait',
    name: 'ask',
    label: 'wait 1 second',
    pointer: '/do/1/review/do/0/ask',
    line: 6,
    column: 14,
    parent: '/do/1/review',
    list: 'do',
  })
  expect(json.body.edges).toContainEqual({
    from: '/do/0/size',
    to: '/do/1/review',
    kind: 'case',
    label: '.total > 9',
  })
  expect(json.body.mermaid).toMatch(/^flowchart TD\n {2}n0\(\["picture"\]\)\n/)
})

test('faulty flow: refused with all its diagnostics', async () => {
  const source = SOURCE.replace('then: review', 'then: revue').replace('PT1S', 'soon')
  const { status, body } = await call('POST', `${workspace.flows}/graph`, {
    as: workspace.operator,
    body: { source },
  })
  expect([status, body.code]).toEqual([422, 'flow_invalid'])
  expect(body.diagnostics.map(({ code, line }: { code: string; line: number }) => [code, line])).toEqual([
    ['unknown_target', 4],
    ['duration_invalid', 6],
  ])
})
