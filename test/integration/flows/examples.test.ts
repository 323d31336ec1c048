/** Runs the example flows on the platform; its functions behave as the examples' test cases assume. */

import { beforeAll, inject } from 'vitest'
import { testExamples } from '../../conformance/flows/examples-run.ts'
import { Place } from '../../conformance/flows/flow-runner.ts'
import { aRoom } from '../../support/fixtures/tenants.ts'

let place: Place
beforeAll(async () => {
  place = new Place(await aRoom(), inject('tenon'))
})

testExamples(() => place)
