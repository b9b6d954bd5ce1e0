// Generated from tensorflow_serving/apis/prediction_service.proto, tensorflow_serving/apis/model_service.proto, inference/open_inference.proto by `npm run generate`: the descriptor as data.

/** The descriptor of tensorflow_serving/apis/prediction_service.proto, tensorflow_serving/apis/model_service.proto, inference/open_inference.proto, as protobufjs reads it. */
export const servingDescriptor: { readonly nested: Readonly<Record<string, unknown>> } = {
  nested: {
    tensorflow: {
      nested: {
        serving: {
          nested: {
            PredictionService: {
              methods: {
                Classify: {
                  requestType: "ClassificationRequest",
                  responseType: "ClassificationResponse",
                },
                Regress: { requestType: "RegressionRequest", responseType: "RegressionResponse" },
                Predict: { requestType: "PredictRequest", responseType: "PredictResponse" },
                MultiInference: {
                  requestType: "MultiInferenceRequest",
                  responseType: "MultiInferenceResponse",
                },
                GetModelMetadata: {
                  requestType: "GetModelMetadataRequest",
                  responseType: "GetModelMetadataResponse",
                },
              },
            },
            Class: {
              fields: { label: { type: "string", id: 1 }, score: { type: "float", id: 2 } },
            },
            Classifications: { fields: { classes: { rule: "repeated", type: "Class", id: 1 } } },
            ClassificationResult: {
              fields: { classifications: { rule: "repeated", type: "Classifications", id: 1 } },
            },
            ClassificationRequest: {
              fields: { model_spec: { type: "ModelSpec", id: 1 }, input: { type: "Input", id: 2 } },
            },
            ClassificationResponse: {
              fields: {
                result: { type: "ClassificationResult", id: 1 },
                model_spec: { type: "ModelSpec", id: 2 },
              },
            },
            ExampleList: {
              fields: { examples: { rule: "repeated", type: "tensorflow.Example", id: 1 } },
            },
            ExampleListWithContext: {
              fields: {
                examples: { rule: "repeated", type: "tensorflow.Example", id: 1 },
                context: { type: "tensorflow.Example", id: 2 },
              },
            },
            Input: {
              oneofs: { kind: { oneof: ["example_list", "example_list_with_context"] } },
              fields: {
                example_list: { type: "ExampleList", id: 1 },
                example_list_with_context: { type: "ExampleListWithContext", id: 2 },
              },
            },
            ModelSpec: {
              oneofs: { version_choice: { oneof: ["version", "version_label"] } },
              fields: {
                name: { type: "string", id: 1 },
                version: { type: "google.protobuf.Int64Value", id: 2 },
                version_label: { type: "string", id: 4 },
                signature_name: { type: "string", id: 3 },
              },
            },
            SignatureDefMap: {
              fields: {
                signature_def: { keyType: "string", type: "tensorflow.SignatureDef", id: 1 },
              },
            },
            GetModelMetadataRequest: {
              fields: {
                model_spec: { type: "ModelSpec", id: 1 },
                metadata_field: { rule: "repeated", type: "string", id: 2 },
              },
            },
            GetModelMetadataResponse: {
              fields: {
                model_spec: { type: "ModelSpec", id: 1 },
                metadata: { keyType: "string", type: "google.protobuf.Any", id: 2 },
              },
            },
            InferenceTask: {
              fields: {
                model_spec: { type: "ModelSpec", id: 1 },
                method_name: { type: "string", id: 2 },
              },
            },
            InferenceResult: {
              oneofs: { result: { oneof: ["classification_result", "regression_result"] } },
              fields: {
                model_spec: { type: "ModelSpec", id: 1 },
                classification_result: { type: "ClassificationResult", id: 2 },
                regression_result: { type: "RegressionResult", id: 3 },
              },
            },
            MultiInferenceRequest: {
              fields: {
                tasks: { rule: "repeated", type: "InferenceTask", id: 1 },
                input: { type: "Input", id: 2 },
              },
            },
            MultiInferenceResponse: {
              fields: { results: { rule: "repeated", type: "InferenceResult", id: 1 } },
            },
            Regression: { fields: { value: { type: "float", id: 1 } } },
            RegressionResult: {
              fields: { regressions: { rule: "repeated", type: "Regression", id: 1 } },
            },
            RegressionRequest: {
              fields: { model_spec: { type: "ModelSpec", id: 1 }, input: { type: "Input", id: 2 } },
            },
            RegressionResponse: {
              fields: {
                result: { type: "RegressionResult", id: 1 },
                model_spec: { type: "ModelSpec", id: 2 },
              },
            },
            PredictRequest: {
              fields: {
                model_spec: { type: "ModelSpec", id: 1 },
                inputs: { keyType: "string", type: "tensorflow.TensorProto", id: 2 },
                output_filter: { rule: "repeated", type: "string", id: 3 },
              },
            },
            PredictResponse: {
              fields: {
                outputs: { keyType: "string", type: "tensorflow.TensorProto", id: 1 },
                model_spec: { type: "ModelSpec", id: 2 },
              },
            },
            ModelService: {
              methods: {
                GetModelStatus: {
                  requestType: "GetModelStatusRequest",
                  responseType: "GetModelStatusResponse",
                },
                HandleReloadConfigRequest: {
                  requestType: "ReloadConfigRequest",
                  responseType: "ReloadConfigResponse",
                },
              },
            },
            GetModelStatusRequest: { fields: { model_spec: { type: "ModelSpec", id: 1 } } },
            ModelVersionStatus: {
              fields: {
                version: { type: "int64", id: 1 },
                state: { type: "State", id: 2 },
                status: { type: "StatusProto", id: 3 },
              },
              nested: {
                State: {
                  values: {
                    UNKNOWN: 0,
                    START: 10,
                    LOADING: 20,
                    AVAILABLE: 30,
                    UNLOADING: 40,
                    END: 50,
                  },
                },
              },
            },
            GetModelStatusResponse: {
              fields: {
                model_version_status: { rule: "repeated", type: "ModelVersionStatus", id: 1 },
              },
            },
            StatusProto: {
              fields: {
                error_code: { type: "tensorflow.error.Code", id: 1 },
                error_message: { type: "string", id: 2 },
              },
            },
            ReloadConfigRequest: {
              fields: {
                config: { type: "ModelServerConfig", id: 1 },
                metric_names: { rule: "repeated", type: "string", id: 2 },
              },
            },
            Metric: {
              oneofs: { value_increase: { oneof: ["int64_value_increase"] } },
              fields: {
                name: { type: "string", id: 1 },
                int64_value_increase: { type: "int64", id: 2 },
              },
            },
            ReloadConfigResponse: {
              fields: {
                status: { type: "StatusProto", id: 1 },
                metric: { rule: "repeated", type: "Metric", id: 2 },
              },
            },
            ModelConfig: {
              fields: {
                name: { type: "string", id: 1 },
                base_path: { type: "string", id: 2 },
                model_platform: { type: "string", id: 4 },
                model_version_policy: {
                  type: "FileSystemStoragePathSourceConfig.ServableVersionPolicy",
                  id: 7,
                },
                version_labels: { keyType: "string", type: "int64", id: 8 },
              },
            },
            ModelConfigList: {
              fields: { config: { rule: "repeated", type: "ModelConfig", id: 1 } },
            },
            ModelServerConfig: {
              oneofs: { config: { oneof: ["model_config_list", "custom_model_config"] } },
              fields: {
                model_config_list: { type: "ModelConfigList", id: 1 },
                custom_model_config: { type: "google.protobuf.Any", id: 2 },
              },
            },
            FileSystemStoragePathSourceConfig: {
              fields: {},
              nested: {
                ServableVersionPolicy: {
                  oneofs: { policy_choice: { oneof: ["latest", "all", "specific"] } },
                  fields: {
                    latest: { type: "Latest", id: 100 },
                    all: { type: "All", id: 101 },
                    specific: { type: "Specific", id: 102 },
                  },
                  nested: {
                    Latest: { fields: { num_versions: { type: "uint32", id: 1 } } },
                    All: { fields: {} },
                    Specific: { fields: { versions: { rule: "repeated", type: "int64", id: 1 } } },
                  },
                },
              },
            },
          },
        },
        Example: { fields: { features: { type: "Features", id: 1 } } },
        BytesList: { fields: { value: { rule: "repeated", type: "bytes", id: 1 } } },
        FloatList: { fields: { value: { rule: "repeated", type: "float", id: 1 } } },
        Int64List: { fields: { value: { rule: "repeated", type: "int64", id: 1 } } },
        Feature: {
          oneofs: { kind: { oneof: ["bytes_list", "float_list", "int64_list"] } },
          fields: {
            bytes_list: { type: "BytesList", id: 1 },
            float_list: { type: "FloatList", id: 2 },
            int64_list: { type: "Int64List", id: 3 },
          },
        },
        Features: { fields: { feature: { keyType: "string", type: "Feature", id: 1 } } },
        TensorInfo: {
          fields: {
            name: { type: "string", id: 1 },
            dtype: { type: "DataType", id: 2 },
            tensor_shape: { type: "TensorShapeProto", id: 3 },
          },
        },
        SignatureDef: {
          fields: {
            inputs: { keyType: "string", type: "TensorInfo", id: 1 },
            outputs: { keyType: "string", type: "TensorInfo", id: 2 },
            method_name: { type: "string", id: 3 },
            defaults: { keyType: "string", type: "TensorProto", id: 4 },
          },
        },
        TensorProto: {
          fields: {
            dtype: { type: "DataType", id: 1 },
            tensor_shape: { type: "TensorShapeProto", id: 2 },
            version_number: { type: "int32", id: 3 },
            tensor_content: { type: "bytes", id: 4 },
            float_val: { rule: "repeated", type: "float", id: 5 },
            double_val: { rule: "repeated", type: "double", id: 6 },
            int_val: { rule: "repeated", type: "int32", id: 7 },
            string_val: { rule: "repeated", type: "bytes", id: 8 },
            int64_val: { rule: "repeated", type: "int64", id: 10 },
            bool_val: { rule: "repeated", type: "bool", id: 11 },
            uint32_val: { rule: "repeated", type: "uint32", id: 16 },
            uint64_val: { rule: "repeated", type: "uint64", id: 17 },
          },
        },
        TensorShapeProto: {
          fields: {
            dim: { rule: "repeated", type: "Dim", id: 2 },
            unknown_rank: { type: "bool", id: 3 },
          },
          nested: {
            Dim: { fields: { size: { type: "int64", id: 1 }, name: { type: "string", id: 2 } } },
          },
        },
        DataType: {
          values: {
            DT_INVALID: 0,
            DT_FLOAT: 1,
            DT_DOUBLE: 2,
            DT_INT32: 3,
            DT_UINT8: 4,
            DT_INT16: 5,
            DT_INT8: 6,
            DT_STRING: 7,
            DT_COMPLEX64: 8,
            DT_INT64: 9,
            DT_BOOL: 10,
            DT_QINT8: 11,
            DT_QUINT8: 12,
            DT_QINT32: 13,
            DT_BFLOAT16: 14,
            DT_QINT16: 15,
            DT_QUINT16: 16,
            DT_UINT16: 17,
            DT_COMPLEX128: 18,
            DT_HALF: 19,
            DT_RESOURCE: 20,
            DT_VARIANT: 21,
            DT_UINT32: 22,
            DT_UINT64: 23,
          },
        },
        error: {
          nested: {
            Code: {
              values: {
                OK: 0,
                CANCELLED: 1,
                UNKNOWN: 2,
                INVALID_ARGUMENT: 3,
                DEADLINE_EXCEEDED: 4,
                NOT_FOUND: 5,
                ALREADY_EXISTS: 6,
                PERMISSION_DENIED: 7,
                RESOURCE_EXHAUSTED: 8,
                FAILED_PRECONDITION: 9,
                ABORTED: 10,
                OUT_OF_RANGE: 11,
                UNIMPLEMENTED: 12,
                INTERNAL: 13,
                UNAVAILABLE: 14,
                DATA_LOSS: 15,
                UNAUTHENTICATED: 16,
              },
            },
          },
        },
      },
    },
    google: {
      nested: {
        protobuf: {
          nested: {
            DoubleValue: { fields: { value: { type: "double", id: 1 } } },
            FloatValue: { fields: { value: { type: "float", id: 1 } } },
            Int64Value: { fields: { value: { type: "int64", id: 1 } } },
            UInt64Value: { fields: { value: { type: "uint64", id: 1 } } },
            Int32Value: { fields: { value: { type: "int32", id: 1 } } },
            UInt32Value: { fields: { value: { type: "uint32", id: 1 } } },
            BoolValue: { fields: { value: { type: "bool", id: 1 } } },
            StringValue: { fields: { value: { type: "string", id: 1 } } },
            BytesValue: { fields: { value: { type: "bytes", id: 1 } } },
            Any: {
              fields: { type_url: { type: "string", id: 1 }, value: { type: "bytes", id: 2 } },
            },
          },
        },
      },
    },
    inference: {
      nested: {
        GRPCInferenceService: {
          methods: {
            ServerLive: { requestType: "ServerLiveRequest", responseType: "ServerLiveResponse" },
            ServerReady: { requestType: "ServerReadyRequest", responseType: "ServerReadyResponse" },
            ModelReady: { requestType: "ModelReadyRequest", responseType: "ModelReadyResponse" },
            ServerMetadata: {
              requestType: "ServerMetadataRequest",
              responseType: "ServerMetadataResponse",
            },
            ModelMetadata: {
              requestType: "ModelMetadataRequest",
              responseType: "ModelMetadataResponse",
            },
            ModelInfer: { requestType: "ModelInferRequest", responseType: "ModelInferResponse" },
          },
        },
        ServerLiveRequest: { fields: {} },
        ServerLiveResponse: { fields: { live: { type: "bool", id: 1 } } },
        ServerReadyRequest: { fields: {} },
        ServerReadyResponse: { fields: { ready: { type: "bool", id: 1 } } },
        ModelReadyRequest: {
          fields: { name: { type: "string", id: 1 }, version: { type: "string", id: 2 } },
        },
        ModelReadyResponse: { fields: { ready: { type: "bool", id: 1 } } },
        ServerMetadataRequest: { fields: {} },
        ServerMetadataResponse: {
          fields: {
            name: { type: "string", id: 1 },
            version: { type: "string", id: 2 },
            extensions: { rule: "repeated", type: "string", id: 3 },
          },
        },
        ModelMetadataRequest: {
          fields: { name: { type: "string", id: 1 }, version: { type: "string", id: 2 } },
        },
        ModelMetadataResponse: {
          fields: {
            name: { type: "string", id: 1 },
            versions: { rule: "repeated", type: "string", id: 2 },
            platform: { type: "string", id: 3 },
            inputs: { rule: "repeated", type: "TensorMetadata", id: 4 },
            outputs: { rule: "repeated", type: "TensorMetadata", id: 5 },
          },
          nested: {
            TensorMetadata: {
              fields: {
                name: { type: "string", id: 1 },
                datatype: { type: "string", id: 2 },
                shape: { rule: "repeated", type: "int64", id: 3 },
              },
            },
          },
        },
        ModelInferRequest: {
          fields: {
            model_name: { type: "string", id: 1 },
            model_version: { type: "string", id: 2 },
            id: { type: "string", id: 3 },
            parameters: { keyType: "string", type: "InferParameter", id: 4 },
            inputs: { rule: "repeated", type: "InferInputTensor", id: 5 },
            outputs: { rule: "repeated", type: "InferRequestedOutputTensor", id: 6 },
            raw_input_contents: { rule: "repeated", type: "bytes", id: 7 },
          },
          nested: {
            InferInputTensor: {
              fields: {
                name: { type: "string", id: 1 },
                datatype: { type: "string", id: 2 },
                shape: { rule: "repeated", type: "int64", id: 3 },
                parameters: { keyType: "string", type: "InferParameter", id: 4 },
                contents: { type: "InferTensorContents", id: 5 },
              },
            },
            InferRequestedOutputTensor: {
              fields: {
                name: { type: "string", id: 1 },
                parameters: { keyType: "string", type: "InferParameter", id: 2 },
              },
            },
          },
        },
        ModelInferResponse: {
          fields: {
            model_name: { type: "string", id: 1 },
            model_version: { type: "string", id: 2 },
            id: { type: "string", id: 3 },
            parameters: { keyType: "string", type: "InferParameter", id: 4 },
            outputs: { rule: "repeated", type: "InferOutputTensor", id: 5 },
            raw_output_contents: { rule: "repeated", type: "bytes", id: 6 },
          },
          nested: {
            InferOutputTensor: {
              fields: {
                name: { type: "string", id: 1 },
                datatype: { type: "string", id: 2 },
                shape: { rule: "repeated", type: "int64", id: 3 },
                parameters: { keyType: "string", type: "InferParameter", id: 4 },
                contents: { type: "InferTensorContents", id: 5 },
              },
            },
          },
        },
        InferParameter: {
          oneofs: {
            parameter_choice: {
              oneof: ["bool_param", "int64_param", "string_param", "double_param", "uint64_param"],
            },
          },
          fields: {
            bool_param: { type: "bool", id: 1 },
            int64_param: { type: "int64", id: 2 },
            string_param: { type: "string", id: 3 },
            double_param: { type: "double", id: 4 },
            uint64_param: { type: "uint64", id: 5 },
          },
        },
        InferTensorContents: {
          fields: {
            bool_contents: { rule: "repeated", type: "bool", id: 1 },
            int_contents: { rule: "repeated", type: "int32", id: 2 },
            int64_contents: { rule: "repeated", type: "int64", id: 3 },
            uint_contents: { rule: "repeated", type: "uint32", id: 4 },
            uint64_contents: { rule: "repeated", type: "uint64", id: 5 },
            fp32_contents: { rule: "repeated", type: "float", id: 6 },
            fp64_contents: { rule: "repeated", type: "double", id: 7 },
            bytes_contents: { rule: "repeated", type: "bytes", id: 8 },
          },
        },
      },
    },
  },
};
