/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OTLP Messages
 *
 * Short names for what protoc-c generates from proto/.
 */

#include "opentelemetry/proto/collector/profiles/v1development/profiles_service.pb-c.h"
#include "opentelemetry/proto/common/v1/common.pb-c.h"
#include "opentelemetry/proto/profiles/v1development/profiles.pb-c.h"
#include "opentelemetry/proto/resource/v1/resource.pb-c.h"

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest OtlpRequest;
typedef Opentelemetry__Proto__Profiles__V1development__ResourceProfiles OtlpResourceProfiles;
typedef Opentelemetry__Proto__Profiles__V1development__ScopeProfiles OtlpScopeProfiles;
typedef Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary OtlpDictionary;
typedef Opentelemetry__Proto__Profiles__V1development__Profile OtlpProfile;
typedef Opentelemetry__Proto__Profiles__V1development__Sample OtlpSample;
typedef Opentelemetry__Proto__Profiles__V1development__ValueType OtlpValueType;
typedef Opentelemetry__Proto__Profiles__V1development__Stack OtlpStack;
typedef Opentelemetry__Proto__Profiles__V1development__Location OtlpLocation;
typedef Opentelemetry__Proto__Profiles__V1development__Line OtlpLine;
typedef Opentelemetry__Proto__Profiles__V1development__Function OtlpFunction;
typedef Opentelemetry__Proto__Profiles__V1development__Mapping OtlpMapping;
typedef Opentelemetry__Proto__Profiles__V1development__Link OtlpLink;
typedef Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit OtlpAttribute;
typedef Opentelemetry__Proto__Common__V1__AnyValue OtlpAnyValue;
typedef Opentelemetry__Proto__Common__V1__KeyValue OtlpKeyValue;
typedef Opentelemetry__Proto__Common__V1__InstrumentationScope OtlpScope;
typedef Opentelemetry__Proto__Resource__V1__Resource OtlpResource;

#define OTLP_DICTIONARY_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__PROFILES_DICTIONARY__INIT
#define OTLP_PROFILE_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__PROFILE__INIT
#define OTLP_SAMPLE_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__SAMPLE__INIT
#define OTLP_VALUE_TYPE_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__VALUE_TYPE__INIT
#define OTLP_STACK_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__STACK__INIT
#define OTLP_LOCATION_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__LOCATION__INIT
#define OTLP_LINE_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__LINE__INIT
#define OTLP_FUNCTION_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__FUNCTION__INIT
#define OTLP_MAPPING_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__MAPPING__INIT
#define OTLP_LINK_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__LINK__INIT
#define OTLP_ATTRIBUTE_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__KEY_VALUE_AND_UNIT__INIT
#define OTLP_ANY_VALUE_INIT OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__INIT
#define OTLP_KEY_VALUE_INIT OPENTELEMETRY__PROTO__COMMON__V1__KEY_VALUE__INIT
#define OTLP_SCOPE_INIT OPENTELEMETRY__PROTO__COMMON__V1__INSTRUMENTATION_SCOPE__INIT
#define OTLP_RESOURCE_INIT OPENTELEMETRY__PROTO__RESOURCE__V1__RESOURCE__INIT

#define OTLP_ANY_STRING OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE
#define OTLP_ANY_BOOL OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_BOOL_VALUE
#define OTLP_ANY_INT OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_INT_VALUE
#define OTLP_ANY_DOUBLE OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_DOUBLE_VALUE
#define OTLP_ANY_ARRAY OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_ARRAY_VALUE
#define OTLP_ANY_KVLIST OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_KVLIST_VALUE
#define OTLP_ANY_STRINDEX OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX

#define OTLP_REQUEST_DESCRIPTOR                                                                                \
        (&opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor)
#define OTLP_RESOURCE_PROFILES_DESCRIPTOR                                                                      \
        (&opentelemetry__proto__profiles__v1development__resource_profiles__descriptor)
#define OTLP_SCOPE_PROFILES_DESCRIPTOR (&opentelemetry__proto__profiles__v1development__scope_profiles__descriptor)
#define OTLP_PROFILE_DESCRIPTOR (&opentelemetry__proto__profiles__v1development__profile__descriptor)
#define OTLP_DICTIONARY_DESCRIPTOR (&opentelemetry__proto__profiles__v1development__profiles_dictionary__descriptor)
#define OTLP_STACK_DESCRIPTOR (&opentelemetry__proto__profiles__v1development__stack__descriptor)
#define OTLP_LOCATION_DESCRIPTOR (&opentelemetry__proto__profiles__v1development__location__descriptor)
#define OTLP_LINE_DESCRIPTOR (&opentelemetry__proto__profiles__v1development__line__descriptor)
#define OTLP_FUNCTION_DESCRIPTOR (&opentelemetry__proto__profiles__v1development__function__descriptor)
