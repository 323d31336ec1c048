/** Examples on the platform itself: what they take for granted of its functions in their cases is so. */

import { beforeAll, inject } from 'vitest'
import { testExamples } from '../../conformance/flows/examples-run.ts'
import { Place } from '../../conformance/flows/flow-runner.ts'
import { aRoom } from '../../support/fixtures/tenants.ts'

let place: Place
beforeAll(async () => {
  place = new Place(await aRoom(), inject('tenon'))
})

testExamples(() => place)
