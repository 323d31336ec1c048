/** `npm run test:soak -- kills`: apart from the suite, since it runs for minutes. */

import { defineConfig, mergeConfig } from 'vitest/config'
import base from './vitest.config.ts'

const { include: _all, ...test } = base.test ?? {}

export default mergeConfig({ test }, defineConfig({ test: { include: ['test/soak/**/*.soak.ts'] } }))
