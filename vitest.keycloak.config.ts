/** `npm run test:keycloak`: apart from the others, since it needs Java, Maven and a minute to start. */

import { defineConfig, mergeConfig } from 'vitest/config'
import base from './vitest.config.ts'

const { include: _all, ...test } = base.test ?? {}

export default mergeConfig(
  { test },
  defineConfig({
    test: { include: ['test/conformance/keycloak/*.proof.ts'], testTimeout: 120_000, hookTimeout: 600_000 },
  }),
)
