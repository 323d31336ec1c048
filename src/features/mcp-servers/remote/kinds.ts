/** The kinds of sources outside the platform. */

import { mcpServer } from './mcp/mcp.ts'
import { openApi } from './openapi/openapi.ts'
import type { RemoteSource, SourceKind } from './source-kind.ts'

const KINDS: Readonly<Record<RemoteSource['kind'], SourceKind>> = { openapi: openApi, mcp: mcpServer }

export const kindOf = ({ kind }: Pick<RemoteSource, 'kind'>): SourceKind => KINDS[kind]
