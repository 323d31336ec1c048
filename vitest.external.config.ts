/** `npm run test:external`: apart from the others, since it needs Caddy, and for Keycloak Java, Maven and a minute to start. */

import { defineConfig, mergeConfig } from 'vitest/config'
import base from './vitest.config.ts'

const { include: _all, ...test } = base.test ?? {}

export default mergeConfig(
  { test },
  defineConfig({
    test: { include: ['test/conformance/external/*.proof.ts'], testTimeout: 120_000, hookTimeout: 600_000 },
  }),
)
