# SPDX-License-Identifier: Apache-2.0
"""Further architectures of the corpus: decoders with caches, detectors, speech and text recognition that the other two files don't have."""
import torch

from architectures import (BART, BATCH, IMAGE, SMALL, SPEECH, TEXT_SIZES, TOKENS, VISION, Entry, _cached_decoder, _decoder, _detector,
                           _encoder, _huggingface, _tokens)

ENTRIES = {}

# ---- Decoders with caches of keys and values.

_TWO = dict(SMALL, num_hidden_layers=2)
_IDS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
for _name, _model, _config, _more, _heads, _size in (
        ("mistral", "MistralForCausalLM", "MistralConfig", dict(num_key_value_heads=2, sliding_window=None), 2, 64),
        ("granite", "GraniteForCausalLM", "GraniteConfig", dict(num_key_value_heads=2), 2, 64),
        ("arcee", "ArceeForCausalLM", "ArceeConfig", dict(num_key_value_heads=2), 2, 64),
        ("exaone4", "Exaone4ForCausalLM", "Exaone4Config", dict(num_key_value_heads=2, sliding_window=None, layer_types=["full_attention"] * 2), 2, 64),
        ("hunyuan", "HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Config", dict(num_key_value_heads=2, head_dim=64), 2, 64),
        ("seed_oss", "SeedOssForCausalLM", "SeedOssConfig", dict(num_key_value_heads=2, head_dim=64), 2, 64),
        ("gemma", "GemmaForCausalLM", "GemmaConfig", dict(num_key_value_heads=1, head_dim=64), 1, 64),
        ("gemma2", "Gemma2ForCausalLM", "Gemma2Config", dict(num_key_value_heads=2, head_dim=64, layer_types=["full_attention"] * 2), 2, 64),
        ("phi", "PhiForCausalLM", "PhiConfig", {}, 4, 64),
        ("stablelm", "StableLmForCausalLM", "StableLmConfig", dict(num_key_value_heads=4), 4, 64),
        ("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config", dict(num_key_value_heads=2, sliding_window=None), 2, 64),
        ("olmo2", "Olmo2ForCausalLM", "Olmo2Config", dict(num_key_value_heads=2), 2, 64),
        ("cohere", "CohereForCausalLM", "CohereConfig", dict(num_key_value_heads=2, **_IDS), 2, 64),
        ("nemotron", "NemotronForCausalLM", "NemotronConfig", dict(num_key_value_heads=2, head_dim=64), 2, 64),
        ("persimmon", "PersimmonForCausalLM", "PersimmonConfig", {}, 4, 64),
        ("helium", "HeliumForCausalLM", "HeliumConfig", dict(num_key_value_heads=2, head_dim=64), 2, 64),
        ("diffllama", "DiffLlamaForCausalLM", "DiffLlamaConfig", dict(num_key_value_heads=2), 2, 64),
        ("apertus", "ApertusForCausalLM", "ApertusConfig", dict(num_key_value_heads=2), 2, 64),
        ("bitnet", "BitNetForCausalLM", "BitNetConfig", dict(num_key_value_heads=2), 2, 64),
        ("smollm3", "SmolLM3ForCausalLM", "SmolLM3Config", dict(num_key_value_heads=2, pad_token_id=0), 2, 64),
        ("gptj", "GPTJForCausalLM", "GPTJConfig", dict(n_embd=128, n_layer=2, n_head=4, rotary_dim=16), 4, 32),
        ("bloom", "BloomForCausalLM", "BloomConfig", dict(n_layer=2, n_head=4), 4, 64)):
    ENTRIES["cached_" + _name] = lambda m=_model, c=_config, o=_more, h=_heads, s=_size: _cached_decoder(m, c, {**_TWO, **o}, h, s)

# ---- Decoders.

for _name, _model, _config, _more in (
        ("arcee", "ArceeForCausalLM", "ArceeConfig", {}), ("exaone4", "Exaone4ForCausalLM", "Exaone4Config", dict(num_key_value_heads=2, sliding_window=16)),
        ("seed_oss", "SeedOssForCausalLM", "SeedOssConfig", dict(num_key_value_heads=2, head_dim=64)),
        ("hunyuan", "HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Config", dict(num_key_value_heads=2, head_dim=64)),
        ("olmoe", "OlmoeForCausalLM", "OlmoeConfig", dict(num_experts=4, num_experts_per_tok=2)),
        ("cohere2", "Cohere2ForCausalLM", "Cohere2Config", dict(num_key_value_heads=2, sliding_window=16, **_IDS)),
        ("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", "Ernie4_5_MoeConfig", dict(num_key_value_heads=2, moe_num_experts=4, moe_k=2, moe_intermediate_size=64)),
        ("minimax", "MiniMaxForCausalLM", "MiniMaxConfig", dict(num_key_value_heads=2, head_dim=64, num_local_experts=2, block_size=8)),
        ("jetmoe", "JetMoeForCausalLM", "JetMoeConfig", dict(num_key_value_heads=2, kv_channels=64, num_local_experts=4, num_experts_per_tok=2)),
        ("qwen3_next", "Qwen3NextForCausalLM", "Qwen3NextConfig", dict(num_key_value_heads=2, head_dim=64, num_experts=4, num_experts_per_tok=2, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=32, linear_value_head_dim=32, moe_intermediate_size=64, shared_expert_intermediate_size=64)),
        ("bamba", "BambaForCausalLM", "BambaConfig", dict(num_key_value_heads=2, mamba_n_heads=8, mamba_d_head=64, mamba_d_state=16, mamba_chunk_size=16, attn_layer_indices=[1])),
        ("zamba2", "Zamba2ForCausalLM", "Zamba2Config", dict(mamba_d_state=16, n_mamba_heads=8, mamba_ngroups=1, chunk_size=16, hybrid_layer_ids=[1], use_mem_rope=True)),
        ("openai_gpt", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", dict(n_embd=128, n_layer=2, n_head=4)),
        ("megatron", "MegatronBertForCausalLM", "MegatronBertConfig", dict(is_decoder=True)),
        ("roc_bert", "RoCBertForCausalLM", "RoCBertConfig", dict(is_decoder=True, pronunciation_vocab_size=100, shape_vocab_size=100)),
        ("deepseek_v2", "DeepseekV2ForCausalLM", "DeepseekV2Config", dict(n_routed_experts=4, num_experts_per_tok=2, first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=32, moe_intermediate_size=64, n_group=1, topk_group=1)),
        ("doge", "DogeForCausalLM", "DogeConfig", dict(num_key_value_heads=2)), ("vaultgemma", "VaultGemmaForCausalLM", "VaultGemmaConfig", dict(num_key_value_heads=2, head_dim=64)),
        ("trocr_cross", "BertGenerationDecoder", "BertGenerationConfig", dict(is_decoder=True))):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _decoder(m, c, {**_TWO, "use_cache": False, **o})

# ---- Encoders of text.

for _name, _model, _config, _more in (
        ("megatron_bert", "MegatronBertModel", "MegatronBertConfig", {}), ("ernie", "ErnieModel", "ErnieConfig", {}),
        ("camembert", "CamembertForTokenClassification", "CamembertConfig", {}), ("flaubert", "FlaubertModel", "FlaubertConfig", dict(emb_dim=128, n_layers=2, n_heads=4)),
        ("luke", "LukeModel", "LukeConfig", dict(entity_vocab_size=100, entity_emb_size=32)), ("tapas", "TapasModel", "TapasConfig", {}),
        ("lilt", "LiltModel", "LiltConfig", dict(channel_shrink_ratio=4)), ("markuplm", "MarkupLMModel", "MarkupLMConfig", {}),
        ("roberta_prelayernorm", "RobertaPreLayerNormModel", "RobertaPreLayerNormConfig", {}), ("data2vec_text", "Data2VecTextModel", "Data2VecTextConfig", {}),
        ("bert_qa", "BertForQuestionAnswering", "BertConfig", {}), ("deberta_tokens", "DebertaV2ForTokenClassification", "DebertaV2Config", {}),
        ("eurobert", "EuroBertModel", "EuroBertConfig", dict(num_key_value_heads=4, **_IDS)), ("roc_bert_encoder", "RoCBertModel", "RoCBertConfig", {}),
        ("mra", "MraModel", "MraConfig", {}), ("yoso", "YosoModel", "YosoConfig", dict(use_expectation=True)), ("fsmt_like_xlm_r_xl", "XLMRobertaXLModel", "XLMRobertaXLConfig", {})):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _encoder(m, c, {**_TWO, **o})

# ---- Encoders with decoders.

_PAIR_DIMS = {"input_ids": TOKENS, "decoder_input_ids": {0: "batch", 1: "target"}}
_PAIR_SIZES = ({"batch": 1, "sequence": 17, "target": 1}, {"batch": 3, "sequence": 40, "target": 9})
_T5 = dict(d_model=128, num_layers=2, num_heads=4, d_ff=256, d_kv=32, vocab_size=1000, decoder_start_token_id=0, use_cache=False)
for _name, _model, _config, _more in (
        ("mbart", "MBartForConditionalGeneration", "MBartConfig", BART), ("mt5", "MT5ForConditionalGeneration", "MT5Config", _T5),
        ("bigbird_pegasus", "BigBirdPegasusForConditionalGeneration", "BigBirdPegasusConfig", dict(BART, attention_type="original_full")),
        ("pegasus_x", "PegasusXForConditionalGeneration", "PegasusXConfig", dict(BART, block_size=8, num_global_tokens=4)),
        ("blenderbot_small", "BlenderbotSmallForConditionalGeneration", "BlenderbotSmallConfig", BART),
        ("nllb_moe", "NllbMoeForConditionalGeneration", "NllbMoeConfig", dict(BART, num_experts=2, expert_capacity=64))):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _huggingface(
        m, c, o, {"input_ids": _tokens(32), "decoder_input_ids": _tokens(7)}, _PAIR_DIMS, _PAIR_SIZES)
ENTRIES["hf_bart_decoder"] = lambda: _decoder("BartForCausalLM", "BartConfig", dict(BART, is_decoder=True, is_encoder_decoder=False), 9)
ENTRIES["hf_mbart_decoder"] = lambda: _decoder("MBartForCausalLM", "MBartConfig", dict(BART, is_decoder=True, is_encoder_decoder=False), 9)

# ---- Speech and sound.

_SOUND_SIZES = ({"batch": 1, "sequence": 12345}, {"batch": 3, "sequence": 8000})
for _name, _model, _config, _more in (
        ("unispeech", "UniSpeechModel", "UniSpeechConfig", {}), ("sew_d", "SEWDModel", "SEWDConfig", {}),
        ("wav2vec2_classes", "Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", {}), ("hubert_ctc", "HubertForCTC", "HubertConfig", {}),
        ("wavlm_frames", "WavLMForAudioFrameClassification", "WavLMConfig", {}), ("wav2vec2_xvector", "Wav2Vec2ForXVector", "Wav2Vec2Config", {})):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _huggingface(
        m, c, dict(SPEECH, **o), {"input_values": torch.randn(2, 16000)}, {"input_values": TOKENS}, _SOUND_SIZES)
_MEL_SIZES = ({"batch": 1, "frames": 97}, {"batch": 3, "frames": 160})
_MEL = {0: "batch", 1: "frames"}
_MELS = lambda: torch.randn(2, 120, 80)
ENTRIES["hf_parakeet"] = lambda: _huggingface("ParakeetEncoder", "ParakeetEncoderConfig", dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, subsampling_conv_channels=32),
                                              {"input_features": _MELS()}, {"input_features": _MEL}, _MEL_SIZES)
ENTRIES["hf_audio_conv"] = lambda: _huggingface("ClapAudioModel", "ClapAudioConfig", dict(patch_embeds_hidden_size=24, depths=[1, 1], num_attention_heads=[2, 4], hidden_size=48), {"input_features": torch.rand(2, 1, 1001, 64)},
                                                {"input_features": BATCH}, ({"batch": 1},))

# ---- Images: detectors, segmentation, text recognition.

_DETR = dict(d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=10, use_pretrained_backbone=False)
for _name, _model, _config, _more, _size in (
        ("convnext", "ConvNextForImageClassification", "ConvNextConfig", dict(hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1]), 64),
        ("mobilevitv2", "MobileViTV2Model", "MobileViTV2Config", dict(image_size=64), 64), ("efficientformer_van", "PoolFormerModel", "PoolFormerConfig", dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1]), 64),
        ("bit", "BitModel", "BitConfig", dict(embedding_size=16, hidden_sizes=[32, 64, 64, 128], depths=[1, 1, 1, 1]), 64),
        ("dab_detr", "DabDetrForObjectDetection", "DabDetrConfig", dict(hidden_size=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=10, use_pretrained_backbone=False), 96),
        ("mask2former", "Mask2FormerForUniversalSegmentation", "Mask2FormerConfig", dict(hidden_dim=64, feature_size=64, mask_feature_size=64, encoder_feedforward_dim=64, dim_feedforward=64, decoder_layers=2, encoder_layers=1, num_attention_heads=4, num_queries=8), 96),
        ("maskformer", "MaskFormerForInstanceSegmentation", "MaskFormerConfig", dict(fpn_feature_size=32, mask_feature_size=32), 96),
        ("vitpose", "VitPoseForPoseEstimation", "VitPoseConfig", {}, 64), ("vitmatte_like_dpt", "DPTForSemanticSegmentation", "DPTConfig", dict(VISION, num_hidden_layers=4, image_size=64, patch_size=16, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[16, 16, 32, 32], fusion_hidden_size=16), 64),
        ("mobilenet_v1", "MobileNetV1Model", "MobileNetV1Config", dict(depth_multiplier=0.25), 64), ("mobilenet_v2", "MobileNetV2ForSemanticSegmentation", "MobileNetV2Config", dict(depth_multiplier=0.35), 64),
        ("pp_doclayout", "PPDocLayoutV3ForObjectDetection", "PPDocLayoutV3Config", {}, 128), ("depth_pro_like_dino_dpt", "Dinov2ForImageClassification", "Dinov2Config", dict(VISION, image_size=56, patch_size=14), 56),
        ("mgp_str", "MgpstrForSceneTextRecognition", "MgpstrConfig", dict(image_size=[32, 128], patch_size=4, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_character_labels=38, num_bpe_labels=100, num_wordpiece_labels=100), 0),
        ("swin_upernet", "SwinModel", "SwinConfig", dict(image_size=64, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4), 64)):
    _shape = (3, _size, _size) if _size else (3, 32, 128)
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more, s=_shape: _huggingface(
        m, c, o, {"pixel_values": torch.rand(2, *s)}, {"pixel_values": BATCH}, ({"batch": 1}, {"batch": 3}))
for _name, _model, _config, _more in (
        ("convnext_sizes", "ConvNextV2Model", "ConvNextV2Config", dict(hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1])),
        ("regnet_sizes", "RegNetModel", "RegNetConfig", dict(embedding_size=16, hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 1, 1], groups_width=8)),
        ("resnet_sizes", "ResNetForImageClassification", "ResNetConfig", dict(embedding_size=16, hidden_sizes=[32, 64, 64, 128], depths=[1, 1, 1, 1])),
        ("detr_sizes", "TableTransformerForObjectDetection", "TableTransformerConfig", _DETR)):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _huggingface(
        m, c, o, {"pixel_values": torch.rand(2, 3, 96, 96)}, {"pixel_values": IMAGE}, ({"batch": 1, "height": 128, "width": 64},))
ENTRIES["tvdet_fasterrcnn_resnet50_fpn_v2"] = lambda: _detector("fasterrcnn_resnet50_fpn_v2", 128)
ENTRIES["tvdet_retinanet_resnet50_fpn_v2"] = lambda: _detector("retinanet_resnet50_fpn_v2", 128)
