/** `npm run test:containers`: docker-compose.yml is started as it stands, by Podman, and the tests run against it. */

import { defineConfig, mergeConfig } from 'vitest/config'
import base from './vitest.config.ts'

const { include: _all, globalSetup: _embedded, ...test } = base.test ?? {}

export default mergeConfig(
  { test },
  defineConfig({
    test: {
      include: ['test/conformance/containers/*.proof.ts', 'test/isolation/tenant-sweep.test.ts'],
      globalSetup: ['test/conformance/containers/global-setup.ts'],
      // They restart what the others use.
      fileParallelism: false,
    },
  }),
)
