/** Runs the example flows on the platform; its functions behave as the examples' test cases assume. */

import { beforeAll, inject } from 'vitest'
import { testExamples } from '../../conformance/flows/examples-run.ts'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

let place: FlowRunner
beforeAll(async () => {
  place = new FlowRunner(await createTestWorkspace(), inject('tenon'))
})

testExamples(() => place)
