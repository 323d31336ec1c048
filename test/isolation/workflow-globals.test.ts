/**
 * Module state shared by all executions of a worker: modules are evaluated once for all tenants, so they may hold
 * nothing of an execution.
 */

import { readFile } from 'node:fs/promises'
import { beforeAll, expect, test } from 'vitest'
import { buildBundle } from '../../src/activities/workflow-bundle.ts'
import { Executions } from '../support/fixtures/executions.ts'
import { createTestWorkspace } from '../support/fixtures/tenants.ts'
import { withReadingClient } from '../support/stack/temporal.ts'

let modules: string[]
beforeAll(async () => {
  const code = await buildBundle()
  const all = [...code.matchAll(/^\/\*{3}\/ "\.\/([^"]+)"/gm)].map(([, name]) => name ?? '')
  modules = all.filter((name) => /^(src|flows-dsl)\//.test(name)).sort()
})

/** Top-level lines that can be rebound or grow. */
const VARIABLE = /^(export )?(let|var) (\w+)/
const GROWING = /^(?:export )?const (\w+)[^=]*= (?:new (?:Map|Set|WeakMap|WeakSet)\b.*|\[\]|\{\})/

test('workflow modules: hold no mutable state but caches of compiled code', async () => {
  expect(modules.length).toBeGreaterThan(100)
  const found: string[] = []
  for (const name of modules) {
    for (const line of (await readFile(name, 'utf8')).split('\n')) {
      const held = VARIABLE.exec(line)?.[3] ?? GROWING.exec(line)?.[1]
      if (held !== undefined) found.push(`${name} ${held}`)
    }
  }
  // Keyed by expression, pattern or program: the same for every execution.
  expect(found).toEqual([
    'flows-dsl/jq/builtins/strings.ts CACHE',
    'flows-dsl/jq/evaluate.ts COMPILED',
    'flows-dsl/jq/evaluate.ts CELLS',
    'flows-dsl/jq/stack-depth.ts HEIGHTS',
    'flows-dsl/jq/stack-depth.ts OF_PARTS',
    'flows-dsl/json-schema/pattern.ts PROGRAMS',
    'flows-dsl/json-schema/validate.ts RULES',
    'flows-dsl/regex/code-point-sets.ts NAMED',
    'flows-dsl/regex/program.ts LOOKS',
    'flows-dsl/tasks/call-http.ts SAFE_METHODS',
    'src/workflows/flow/calls.ts SLOW',
  ])
})

test('stack trace query of a workflow: empty, no stacks of promises are kept', async (context) => {
  if (process.env['TENON_SDK_PATCHES'] === 'off')
    context.skip('without its patches the SDK keeps a stack for each promise')
  const executions = new Executions(await createTestWorkspace())
  const id = await executions.start(await executions.publish('  - rest: { wait: { hours: 1 } }\n'))
  const { workflow_id } = await executions.until(id, ({ status }) => status === 'waiting')
  const stackTrace = withReadingClient((client) =>
    client.workflow.getHandle(workflow_id).query('__stack_trace'),
  )
  expect(await stackTrace).toBe('')
  await executions.send(id, 'cancel')
})
